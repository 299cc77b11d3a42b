// SPDX-License-Identifier: MIT
#pragma once
#include <span>
#include <vector>

namespace cheetah {

// Linear interpolation between the two nearest ranks; q in [0, 1]; 0 for no samples.
double quantile(std::span<const double> samples, double q);
inline double median(std::span<const double> samples) { return quantile(samples, 0.5); }

// Half the interquartile range over the median: the spread reported beside every measured median.
double relative_spread(std::span<const double> samples);

}  // namespace cheetah
