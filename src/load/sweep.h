// SPDX-License-Identifier: MIT
#pragma once
// A sweep over rates, and where the server stops keeping up.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "load/summary.h"

namespace cheetah {

struct SweepPlan {
  double low = 1, high = 1;
  int64_t steps = 1;
};

// "low:high:steps". Throws UsageError.
SweepPlan sweep_plan_from(const std::string& text);
// Evenly spaced on a logarithmic scale, ascending, both ends among them.
std::vector<double> sweep_rates(const SweepPlan& plan);

struct SweepPoint {
  double rate = 0;
  LoadSummary summary;
};

// A rate is served when at least this share of its requests meets every SLO.
constexpr double kServedShare = 0.9;
// Index of the highest rate that is served; nullopt: none is.
std::optional<size_t> find_knee(std::span<const SweepPoint> points);

}  // namespace cheetah
