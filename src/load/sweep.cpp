// SPDX-License-Identifier: MIT
#include "load/sweep.h"

#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {

SweepPlan sweep_plan_from(const std::string& text) {
  SweepPlan plan;
  long long steps = 0;
  char rest = 0;
  const int read = std::sscanf(text.c_str(), "%lf:%lf:%lld%c", &plan.low, &plan.high, &steps, &rest);
  plan.steps = steps;
  const bool good = read == 3 && std::isfinite(plan.high) && plan.low > 0 && plan.high >= plan.low &&
                    steps >= 1 && steps <= 1000;
  if (!good)
    throw UsageError(
        format("--sweep {}: expected LOW:HIGH:STEPS with rates above 0 and 1 to 1000 steps, as in 1:32:6",
            printable(text)));
  return plan;
}

std::vector<double> sweep_rates(const SweepPlan& plan) {
  if (plan.steps == 1) return {plan.high};
  std::vector<double> rates;
  const double ratio = std::log(plan.high / plan.low) / static_cast<double>(plan.steps - 1);
  for (int64_t i = 0; i + 1 < plan.steps; ++i)
    rates.push_back(plan.low * std::exp(ratio * static_cast<double>(i)));
  rates.push_back(plan.high);
  return rates;
}

std::optional<size_t> find_knee(std::span<const SweepPoint> points) {
  std::optional<size_t> knee;
  for (size_t i = 0; i < points.size(); ++i)
    if (points[i].summary.attainment >= kServedShare && (!knee || points[i].rate > points[*knee].rate))
      knee = i;
  return knee;
}

}  // namespace cheetah
