// SPDX-License-Identifier: MIT
#pragma once
#include "cli/command.h"

namespace cheetah {

// cheetah bench serve, below cheetah bench.
void add_bench_serve(CLI::App& bench, Action& action);

}  // namespace cheetah
