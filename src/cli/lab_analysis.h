// SPDX-License-Identifier: MIT
#pragma once
// The calculators of `cheetah lab`; one source each.
#include "cli/command.h"

namespace cheetah {

void add_lab_occupancy(CLI::App& lab, Action& action);
void add_lab_access(CLI::App& lab, Action& action);
void add_lab_diagnose(CLI::App& lab, Action& action);
void add_lab_sass(CLI::App& lab, Action& action);
void add_lab_roofline(CLI::App& lab, Action& action);

}  // namespace cheetah
