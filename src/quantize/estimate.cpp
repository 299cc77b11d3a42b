// SPDX-License-Identifier: MIT
#include "quantize/estimate.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace cheetah {
namespace {

constexpr double kZ = 1.959963984540054;  // the normal distribution's 97.5 % point

}  // namespace

// Exact for few degrees, where the expansion in 1 / degrees is not good yet.
double student_t(int64_t degrees) {
  constexpr std::array kFew = {12.7062, 4.3027, 3.1824, 2.7764, 2.5706};
  if (degrees < 1) return 0;
  if (degrees <= std::ssize(kFew)) return kFew[static_cast<size_t>(degrees - 1)];
  const auto n = static_cast<double>(degrees);
  const double z3 = kZ * kZ * kZ, z5 = z3 * kZ * kZ, z7 = z5 * kZ * kZ;
  return kZ + (z3 + kZ) / (4 * n) + (5 * z5 + 16 * z3 + 3 * kZ) / (96 * n * n) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * kZ) / (384 * n * n * n);
}

Estimate cluster_mean(std::span<const Cluster> clusters) {
  double sum = 0, count = 0;
  for (const Cluster& cluster : clusters) sum += cluster.sum, count += cluster.count;
  if (count <= 0) return {};
  Estimate result{.mean = sum / count, .interval = {}};
  const auto number = static_cast<double>(clusters.size());
  if (clusters.size() < 2) return result;
  double squares = 0;
  for (const Cluster& cluster : clusters) {
    const double miss = cluster.sum - result.mean * cluster.count;
    squares += miss * miss;
  }
  const double error = std::sqrt(squares * number / (number - 1)) / count;
  const double half = student_t(std::ssize(clusters) - 1) * error;
  result.interval = Interval{result.mean - half, result.mean + half};
  return result;
}

Estimate share(int64_t hits, int64_t count) {
  if (count <= 0) return {};
  const auto n = static_cast<double>(count);
  const double p = static_cast<double>(hits) / n, z2 = kZ * kZ / n;
  const double centre = (p + z2 / 2) / (1 + z2);
  const double half = kZ * std::sqrt(p * (1 - p) / n + z2 / (4 * n)) / (1 + z2);
  return {.mean = p, .interval = Interval{std::max(0.0, centre - half), std::min(1.0, centre + half)}};
}

}  // namespace cheetah
