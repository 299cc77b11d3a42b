// SPDX-License-Identifier: MIT
#include "cluster/policy/sizing.h"

#include <algorithm>

#include "base/format.h"

namespace cheetah::cluster {
namespace {

Split split_of(const PhaseRates& rates, int64_t num_prefill, int64_t num_decode) {
  return {.num_prefill = num_prefill,
      .num_decode = num_decode,
      .rps = goodput_rps(rates, num_prefill, num_decode)};
}

}  // namespace

double goodput_rps(const PhaseRates& rates, int64_t num_prefill, int64_t num_decode) {
  return std::min(static_cast<double>(num_prefill) * rates.prefill_rps,
      static_cast<double>(num_decode) * rates.decode_rps);
}

double goodput_per_worker(const PhaseRates& rates, int64_t num_prefill, int64_t num_decode) {
  const int64_t workers = num_prefill + num_decode;
  return workers > 0 ? goodput_rps(rates, num_prefill, num_decode) / static_cast<double>(workers) : 0;
}

Split best_split(const PhaseRates& rates, int64_t num_workers) {
  Split best = {.num_both = num_workers, .rps = static_cast<double>(num_workers) * rates.both_rps};
  for (int64_t prefill = 1; prefill < num_workers; ++prefill) {
    const Split split = split_of(rates, prefill, num_workers - prefill);
    if (split.rps > best.rps) best = split;
  }
  best.why =
      best.num_both > 0
          ? format("{} workers that do both carry {:.1f} requests per second; no split carries more",
                best.num_both, best.rps)
          : format("{} prefill and {} decode workers carry {:.1f} requests per second, {:.2f} per worker",
                best.num_prefill, best.num_decode, best.rps,
                goodput_per_worker(rates, best.num_prefill, best.num_decode));
  return best;
}

Split size_for(const PhaseRates& rates, double demand_rps, int64_t max_workers) {
  for (int64_t workers = 1; workers <= max_workers; ++workers) {
    Split split = best_split(rates, workers);
    if (split.rps >= demand_rps) return split;
  }
  Split most = best_split(rates, std::max<int64_t>(0, max_workers));
  most.feasible = false;
  most.why = format("{:.1f} requests per second are not possible with {} workers; the most: {}", demand_rps,
      max_workers, most.why);
  return most;
}

}  // namespace cheetah::cluster
