// SPDX-License-Identifier: MIT
#pragma once
// What is wrong with a launch before it runs: lanes, coverage, waves, limits, launch bounds.
#include <optional>
#include <string>
#include <vector>

#include "lab/analysis/occupancy.h"

namespace cheetah::analysis {

struct Launch {
  KernelResources kernel;
  int64_t grid_x = 0, grid_y = 1, grid_z = 1;  // grid_x 0: one thread for each `per_thread` elements
  int64_t elements = 0;                        // 0: not told
  int64_t per_thread = 1;
  int64_t num_sms = 0;                                       // 0: of the example card
  std::optional<int64_t> bounds_threads{}, bounds_blocks{};  // __launch_bounds__

  int64_t blocks() const;  // at most 2^62, however large the dimensions
};

struct Advice {
  enum class Level { kGood, kNote, kBad };
  Level level = Level::kGood;
  std::string what;    // found
  std::string remedy;  // "" where there is nothing to do
};

struct LaunchReport {
  Launch launch;  // with the grid filled in
  Occupancy occupancy;
  double waves = 0;            // of blocks over all SMs; 0 when the grid is not known
  double tail_idle_share = 0;  // of all SM time that the last wave leaves idle, blocks taken as equally long
  std::vector<Advice> advice;
};

LaunchReport advise(const SmLimits& sm, Launch launch);

}  // namespace cheetah::analysis
