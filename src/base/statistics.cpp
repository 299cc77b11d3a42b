// SPDX-License-Identifier: MIT
#include "base/statistics.h"

#include <algorithm>
#include <cmath>

namespace cheetah {

double quantile(std::span<const double> samples, double q) {
  if (samples.empty()) return 0;
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const double rank = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(rank));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (rank - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

double relative_spread(std::span<const double> samples) {
  const double middle = median(samples);
  return middle == 0 ? 0 : (quantile(samples, 0.75) - quantile(samples, 0.25)) / 2 / middle;
}

}  // namespace cheetah
