// SPDX-License-Identifier: MIT
#pragma once
// Each adds its subcommands to `cheetah lab`; one source a group.
#include <string>

#include "cli/command.h"

namespace cheetah {

void add_lab_run(CLI::App& lab, Action& action);      // list, run
void add_lab_history(CLI::App& lab, Action& action);  // show, history, compare, report

// Where runs are kept unless --history says otherwise: $XDG_DATA_HOME/cheetah/lab.sqlite.
std::string default_lab_history();

}  // namespace cheetah
