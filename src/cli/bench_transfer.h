// SPDX-License-Identifier: MIT
#pragma once
#include "cli/command.h"

namespace cheetah {

// cheetah bench transfer, below cheetah bench.
void add_bench_transfer(CLI::App& bench, Action& action);

}  // namespace cheetah
