// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

namespace cheetah {

// Counts per bucket, in the shape Prometheus wants: bounds[i] is the upper edge of bucket i, the last has
// none.
struct Histogram {
  std::vector<double> bounds;
  std::vector<uint64_t> counts;  // one more than bounds
  double sum = 0;
  uint64_t count = 0;

  explicit Histogram(std::vector<double> upper_bounds = {});
  void observe(double value);
};

// Upper bounds that suit the latencies of language models: a millisecond to minutes.
std::vector<double> latency_bounds();
// Powers of two up to `largest`, for token counts.
std::vector<double> token_bounds(int64_t largest);

}  // namespace cheetah
