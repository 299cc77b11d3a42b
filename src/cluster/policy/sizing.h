// SPDX-License-Identifier: MIT
#pragma once
// How many prefill and decode workers (xPyD) a load needs.
#include <cstdint>
#include <string>

namespace cheetah::cluster {

struct PhaseRates {  // of one worker within the targets
  double prefill_rps = 0, decode_rps = 0;
  double both_rps = 0;  // of one that does both; 0: not known
};

double goodput_rps(const PhaseRates& rates, int64_t num_prefill, int64_t num_decode);
double goodput_per_worker(const PhaseRates& rates, int64_t num_prefill, int64_t num_decode);

struct Split {
  int64_t num_prefill = 0, num_decode = 0, num_both = 0;
  double rps = 0;
  bool feasible = true;  // false: the nearest that `max_workers` allow
  std::string why = {};
};

// The best of all splits of `num_workers`; all of them doing both where that is better.
Split best_split(const PhaseRates& rates, int64_t num_workers);
// The fewest workers that carry `demand_rps`.
Split size_for(const PhaseRates& rates, double demand_rps, int64_t max_workers);

}  // namespace cheetah::cluster
