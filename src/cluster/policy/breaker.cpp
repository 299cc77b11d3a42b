// SPDX-License-Identifier: MIT
#include "cluster/policy/breaker.h"

#include <algorithm>

namespace cheetah::cluster {
namespace {

Duration milliseconds(int64_t count) { return std::chrono::milliseconds(count); }

}  // namespace

std::string_view name_of(BreakerState state) {
  switch (state) {
    case BreakerState::kClosed:
      return "closed";
    case BreakerState::kOpen:
      return "open";
    case BreakerState::kHalfOpen:
      return "half_open";
  }
  return "unknown";
}

BreakerState Breaker::state(Time now) const {
  if (!open_) return BreakerState::kClosed;
  return now < until_ ? BreakerState::kOpen : BreakerState::kHalfOpen;
}

Duration Breaker::opens_in(Time now, const BreakerConfig& config) const {
  if (!open_) return Duration::zero();
  const Time next_try = tries_ < config.probes ? until_ : last_try_ + milliseconds(config.open_ms);
  return std::max(Duration::zero(), std::max(until_, next_try) - now);
}

void Breaker::open(Time now, const BreakerConfig& config) {
  const int64_t doublings = std::min<int64_t>(times_opened_++, 20);
  open_ = true;
  until_ = now + milliseconds(std::min(config.max_open_ms, config.open_ms << doublings));
  tries_ = successes_ = failures_ = 0;
}

bool Breaker::allow(Time now, const BreakerConfig& config) {
  const BreakerState current = state(now);
  if (current != BreakerState::kHalfOpen) return current == BreakerState::kClosed;
  // Tries whose outcome never came must not keep it half open forever.
  if (tries_ >= config.probes && now >= last_try_ + milliseconds(config.open_ms)) tries_ = 0;
  if (tries_ >= config.probes) return false;
  ++tries_;
  last_try_ = now;
  return true;
}

void Breaker::succeeded(Time now, const BreakerConfig& config) {
  failures_ = 0;
  if (state(now) != BreakerState::kHalfOpen || ++successes_ < config.probes) return;
  open_ = false;
  times_opened_ = 0;
}

void Breaker::failed(Time now, const BreakerConfig& config) {
  const BreakerState current = state(now);
  if (current == BreakerState::kOpen) return;  // of before it opened
  if (current == BreakerState::kHalfOpen || ++failures_ >= config.failures) open(now, config);
}

void Breaker::depth_is(double depth, Time now, const BreakerConfig& config) {
  const bool deep = config.max_depth > 0 && depth > config.max_depth;
  if (deep && !deep_) deep_since_ = now;
  deep_ = deep;
  if (deep && state(now) != BreakerState::kOpen && now - deep_since_ >= milliseconds(config.depth_ms))
    open(now, config);
}

}  // namespace cheetah::cluster
