#pragma once
// When requests are sent, decided before the first one is: an open loop does not wait for answers.
#include <cstdint>
#include <string>
#include <vector>

namespace cheetah {

enum class ArrivalKind { kPoisson, kConstant, kBursty, kTrace };

// Throws UsageError for an unknown name.
ArrivalKind arrival_kind_from(const std::string& name);
const char* name_of(ArrivalKind kind);

struct ArrivalPlan {
  ArrivalKind kind = ArrivalKind::kPoisson;
  double rate = 1;  // requests a second, on average
  // Of kBursty: gaps follow a gamma distribution of this shape. 1 is Poisson; the square of their coefficient
  // of variation is 1 / shape.
  double burst_shape = 0.25;
  uint64_t seed = 0;
};

// Seconds after the start, ascending, the first at 0: `count` of them, or fewer where they pass `duration_s`.
// Not for kTrace, whose times stand in its file.
std::vector<double> arrival_times(const ArrivalPlan& plan, int64_t count, double duration_s);

}  // namespace cheetah
