// SPDX-License-Identifier: MIT
#include "load/arrivals.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/random.h"

namespace cheetah {
namespace {

constexpr uint64_t kArrivalStream = 0xA441;  // apart from the streams that make prompts

double exponential(Philox& random) { return -std::log(1.0 - random.next_uniform()); }

// Marsaglia and Tsang, "A simple method for generating gamma variables", 2000; a shape below 1 is one higher
// times a power of a uniform number. Mean: the shape.
double gamma(Philox& random, double shape) {
  if (shape < 1) return gamma(random, shape + 1) * std::pow(1.0 - random.next_uniform(), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double normal = random.next_normal();
    const double root = 1 + c * normal;
    if (root <= 0) continue;
    const double cube = root * root * root;
    if (std::log(1.0 - random.next_uniform()) < normal * normal / 2 + d - d * cube + d * std::log(cube))
      return d * cube;
  }
}

double gap(const ArrivalPlan& plan, Philox& random) {
  switch (plan.kind) {
    case ArrivalKind::kPoisson:
      return exponential(random) / plan.rate;
    case ArrivalKind::kBursty:
      return gamma(random, plan.burst_shape) / plan.burst_shape / plan.rate;
    case ArrivalKind::kConstant:
    case ArrivalKind::kTrace:
      break;
  }
  CHEETAH_ASSERT(false, "these times are not drawn");
}

}  // namespace

ArrivalKind arrival_kind_from(const std::string& name) {
  for (const ArrivalKind kind :
      {ArrivalKind::kPoisson, ArrivalKind::kConstant, ArrivalKind::kBursty, ArrivalKind::kTrace})
    if (name == name_of(kind)) return kind;
  throw UsageError(format("--arrival {}: expected poisson, constant, bursty or trace", printable(name)));
}

const char* name_of(ArrivalKind kind) {
  switch (kind) {
    case ArrivalKind::kPoisson:
      return "poisson";
    case ArrivalKind::kConstant:
      return "constant";
    case ArrivalKind::kBursty:
      return "bursty";
    case ArrivalKind::kTrace:
      return "trace";
  }
  return "";
}

// Gaps scaled so that they fill the window. Of a Poisson process this is its distribution given the number of arrivals;
// the last gap ends at the window's end and has no arrival.
Arrivals draw_arrivals(const ArrivalPlan& plan, int64_t count, double duration_s) {
  const double expected =
      std::min(static_cast<double>(count), std::max(1.0, std::round(plan.rate * duration_s)));
  const auto num = static_cast<size_t>(expected);
  Arrivals arrivals{.times = {},
      .window_s = expected < plan.rate * duration_s - 1 || std::isinf(duration_s) ? expected / plan.rate
                                                                                  : duration_s};
  arrivals.times.reserve(num);
  if (plan.kind == ArrivalKind::kConstant) {
    const double step = arrivals.window_s / expected;
    for (size_t i = 0; i < num; ++i) arrivals.times.push_back(static_cast<double>(i) * step);
    return arrivals;
  }
  Philox random(plan.seed, kArrivalStream);
  double at = 0;
  for (size_t i = 0; i < num; ++i) arrivals.times.push_back(at += gap(plan, random));
  const double scale = arrivals.window_s / (at + gap(plan, random));
  for (double& time : arrivals.times) time *= scale;
  return arrivals;
}

}  // namespace cheetah
