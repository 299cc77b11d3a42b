// SPDX-License-Identifier: MIT
#pragma once
// Means with 95 % confidence intervals over samples that come in clusters (the tokens of one window).
#include <cstdint>
#include <optional>
#include <span>

namespace cheetah {

struct Interval {
  double low = 0;
  double high = 0;
};

struct Estimate {
  double mean = 0;
  std::optional<Interval> interval = {};  // nullopt: one cluster says nothing about the spread
};

struct Cluster {
  double sum = 0;
  double count = 0;
};

// The mean over all samples. Tokens of one window depend on each other, so the spread is taken between
// clusters: the ratio estimator's variance with Student's t for few clusters.
Estimate cluster_mean(std::span<const Cluster> clusters);

// A share of `count` independent trials, with Wilson's interval.
Estimate share(int64_t hits, int64_t count);

// Student's t at 97.5 %.
double student_t(int64_t degrees);

}  // namespace cheetah
