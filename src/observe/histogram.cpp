// SPDX-License-Identifier: MIT
#include "observe/histogram.h"

#include <algorithm>

namespace cheetah {

Histogram::Histogram(std::vector<double> upper_bounds)
    : bounds(std::move(upper_bounds)), counts(bounds.size() + 1, 0) {}

void Histogram::observe(double value) {
  const auto bucket = std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin();
  ++counts[static_cast<size_t>(bucket)];
  sum += value;
  ++count;
}

std::vector<double> latency_bounds() {
  return {0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 1.5, 2,
      3, 5, 7.5, 10, 15, 20, 30, 40, 60, 120};
}

std::vector<double> token_bounds(int64_t largest) {
  std::vector<double> bounds;
  for (int64_t bound = 1; bound <= largest; bound *= 2) bounds.push_back(static_cast<double>(bound));
  return bounds;
}

}  // namespace cheetah
