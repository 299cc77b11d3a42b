// SPDX-License-Identifier: MIT
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
  double rate = 1;  // requests per second, on average
  // Of kBursty: gaps follow a gamma distribution of this shape. 1 is Poisson; the square of their coefficient
  // of variation is 1 / shape.
  double burst_shape = 0.25;
  uint64_t seed = 0;
};

// When requests are due, and the window they were drawn for.
struct Arrivals {
  std::vector<double> times;  // seconds after the start, ascending, within the window
  double window_s = 0;

  double rate() const { return window_s > 0 ? static_cast<double>(times.size()) / window_s : 0; }
};

// Exactly as many arrivals as the rate brings in `duration_s`, at least one and at most `count`, at random places in
// their window: a run offers the rate that was asked for, however short it is. Not for kTrace, whose times are in
// its file.
Arrivals draw_arrivals(const ArrivalPlan& plan, int64_t count, double duration_s);

}  // namespace cheetah
