// SPDX-License-Identifier: MIT
#include "cluster/policy/autoscale.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace cheetah::cluster {
namespace {

struct Seen {
  double value, up, down;
  ScaleReason high;
};

std::array<Seen, 3> numbers_of(const PoolSample& s, const PoolScaling& limits) {
  return {{{s.queue_length, limits.up.queue_length, limits.down.queue_length, ScaleReason::kQueueHigh},
      {s.utilization, limits.up.utilization, limits.down.utilization, ScaleReason::kUtilizationHigh},
      {s.kv_usage, limits.up.kv_usage, limits.down.kv_usage, ScaleReason::kKvHigh}}};
}

// Between the two limits lies the band where nothing happens.
ScaleReason reading(const std::array<Seen, 3>& numbers) {
  bool all_low = true, any_watched = false;
  for (const Seen& n : numbers) {
    if (n.up > 0 && n.value >= n.up) return n.high;
    if (n.down <= 0) continue;
    any_watched = true;
    all_low = all_low && n.value <= n.down;
  }
  return any_watched && all_low ? ScaleReason::kAllLow : ScaleReason::kHold;
}

// As many as bring the worst number down to its limit.
int64_t wanted_up(const PoolSample& sample, const std::array<Seen, 3>& numbers, int64_t max_step) {
  double factor = 1;
  for (const Seen& n : numbers)
    if (n.up > 0) factor = std::max(factor, n.value / n.up);
  const double more = static_cast<double>(sample.replicas) * (std::min(factor, 1e3) - 1);
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(more)), 1, std::max<int64_t>(1, max_step));
}

bool cooling(const PoolScaleState& state, Time now, int64_t cooldown_ms) {
  return state.changed && now - state.last_change < std::chrono::milliseconds(cooldown_ms);
}

}  // namespace

std::string_view name_of(ScaleReason reason) {
  constexpr std::array<std::string_view, 11> kNames = {"hold", "below_min", "above_max", "queue_high",
      "utilization_high", "kv_high", "all_low", "waiting_for_samples", "cooldown", "predicted", "no_rates"};
  return kNames.at(static_cast<size_t>(reason));
}

ScaleDecision scale(const PoolSample& sample, const PoolScaling& limits, const AutoscaleConfig& config,
    Time now, PoolScaleState& state) {
  // A replica that comes raises the wish (a router that starts sees them one by one); one that goes does not
  // lower it.
  const bool more = !state.desired || sample.replicas > state.replicas;
  const int64_t stands = std::max(state.desired.value_or(0), more ? sample.replicas : 0);
  state.replicas = sample.replicas;
  state.desired = std::clamp(stands, limits.min_replicas, limits.max_replicas);
  if (sample.replicas < limits.min_replicas) return {*state.desired, ScaleReason::kBelowMin};
  if (sample.replicas > limits.max_replicas) return {*state.desired, ScaleReason::kAboveMax};
  const auto numbers = numbers_of(sample, limits);
  const ScaleReason seen = reading(numbers);
  const bool up = seen != ScaleReason::kHold && seen != ScaleReason::kAllLow;
  state.high = up ? state.high + 1 : 0;
  state.low = seen == ScaleReason::kAllLow ? state.low + 1 : 0;
  if (seen == ScaleReason::kHold) return {*state.desired, seen};
  if (up ? state.high < config.samples_up : state.low < config.samples_down)
    return {*state.desired, ScaleReason::kWaitingForSamples};
  if (cooling(state, now, up ? config.cooldown_up_ms : config.cooldown_down_ms))
    return {*state.desired, ScaleReason::kCooldown};
  const int64_t wanted =
      up ? std::max(*state.desired, sample.replicas + wanted_up(sample, numbers, config.max_step_up))
         : *state.desired - 1;
  const int64_t desired = std::clamp(wanted, limits.min_replicas, limits.max_replicas);
  if (desired == *state.desired && desired == sample.replicas) return {desired, ScaleReason::kHold};
  state = {.desired = desired, .replicas = sample.replicas, .changed = true, .last_change = now};
  return {desired, seen};
}

}  // namespace cheetah::cluster
