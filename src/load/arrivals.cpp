#include "load/arrivals.h"

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
    case ArrivalKind::kConstant:
      return 1 / plan.rate;
    case ArrivalKind::kBursty:
      return gamma(random, plan.burst_shape) / plan.burst_shape / plan.rate;
    case ArrivalKind::kTrace:
      break;
  }
  CHEETAH_ASSERT(false, "a trace brings its own times");
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

std::vector<double> arrival_times(const ArrivalPlan& plan, int64_t count, double duration_s) {
  Philox random(plan.seed, kArrivalStream);
  std::vector<double> times;
  double at = 0;
  while (static_cast<int64_t>(times.size()) < count && at <= duration_s) {
    times.push_back(at);
    at += gap(plan, random);
  }
  return times;
}

}  // namespace cheetah
