#pragma once
// Each adds its subcommands to `cheetah lab`; one source a group.
#include "cli/command.h"

namespace cheetah {

void add_lab_run(CLI::App& lab, Action& action);  // list, run

}  // namespace cheetah
