// SPDX-License-Identifier: MIT
#pragma once
// Runs an experiment: checks every variant, times them interleaved, judges them.
#include <functional>

#include "lab/machine.h"
#include "lab/result.h"
#include "lab/roofs.h"

namespace cheetah::lab {

struct RunOptions {
  bool quick = false;       // small sizes, few rounds
  bool check_only = false;  // correctness alone: one launch a variant, no times
  uint64_t seed = 1;        // of the inputs and of the order of variants
};

// A variant that throws is wrong; an experiment that cannot run here says why in `skipped`.
ExperimentResult run_experiment(
    const Experiment& experiment, Machine& machine, Roofs& roofs, const RunOptions& options);

}  // namespace cheetah::lab
