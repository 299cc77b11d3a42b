// SPDX-License-Identifier: MIT
#pragma once
// A circuit breaker of one phase: closed (all pass), open (none), half open (a few try).
#include <cstdint>
#include <string_view>

#include "cluster/policy/qos_config.h"
#include "cluster/types.h"

namespace cheetah::cluster {

enum class BreakerState : uint8_t { kClosed, kOpen, kHalfOpen };
std::string_view name_of(BreakerState state);

class Breaker {
 public:
  // Whether one more may try; in the half-open state counts it as a try.
  bool allow(Time now, const BreakerConfig& config);
  void succeeded(Time now, const BreakerConfig& config);
  void failed(Time now, const BreakerConfig& config);
  // A worker of the phase has become ready: what was counted was about others.
  void worker_ready() { *this = {}; }
  void depth_is(double depth, Time now, const BreakerConfig& config);  // of the phase's queue
  BreakerState state(Time now) const;
  // Until it lets one through; zero when it does already.
  Duration opens_in(Time now, const BreakerConfig& config) const;

 private:
  void open(Time now, const BreakerConfig& config);

  bool open_ = false;
  Time until_{};
  int64_t failures_ = 0, successes_ = 0, tries_ = 0, times_opened_ = 0;
  Time last_try_{};
  bool deep_ = false;
  Time deep_since_{};
};

}  // namespace cheetah::cluster
