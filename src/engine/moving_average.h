// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>

namespace cheetah {

// Of the times of steps. One that took a thousand times as long says that the process or the machine stood
// still, not that steps have become slow: it counts as a few times the average. If they have become slow, the
// next ones say so too.
inline void average_in(double& average, double value, double weight) {
  constexpr double kOutlier = 4;  // times the average
  average = average == 0 ? value : average + weight * (std::min(value, kOutlier * average) - average);
}

}  // namespace cheetah
