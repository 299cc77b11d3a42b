// SPDX-License-Identifier: MIT
#pragma once
// A day of load on a simulated clock, second by second: two pools that a scaler sizes, workers that take their
// time to load a model, and crashes. What a fluid shows is enough here: work that arrives, waits and is done.
#include <cstdint>
#include <vector>

#include "cluster/policy/slo_scaling.h"

namespace cheetah::cluster::throughput {

struct DayShape {
  double night_rps = 10, noon_rps = 80;
  double prompt_tokens = 1000, output_tokens = 200;
  double burst_factor = 1.8;
  std::vector<int> bursts_s = {34'000, 52'000, 71'000};  // when each begins
  int burst_s = 600, ramp_s = 120;
  std::vector<int> crashes_s = {43'200, 61'000};  // half of both pools dies
  double start_s = 60;                            // of a new worker
  uint64_t seed = 1;
};

enum class DayScaler : uint8_t { kSlo, kReactive, kOracle };

struct DayReport {
  double in_time = 0;  // share of requests within both goals
  double replica_hours = 0;
  int64_t changes = 0;                      // of either wish
  std::vector<int64_t> decode_wishes = {};  // of each second
};

WorkerRates day_rates();
SloScaling day_goals();
DayReport run_day(const DayShape& shape, DayScaler scaler);

}  // namespace cheetah::cluster::throughput
