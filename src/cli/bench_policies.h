// SPDX-License-Identifier: MIT
#pragma once
#include "cli/command.h"

namespace cheetah {

// cheetah bench policies, below cheetah bench.
void add_bench_policies(CLI::App& bench, Action& action);

}  // namespace cheetah
