// SPDX-License-Identifier: MIT
#pragma once
// How many replicas each pool should have: up when any of its numbers is too high, down when all of them
// are low, after enough samples in a row and not sooner after the last change than the cooldown. The wish
// stands until the next one: an autoscaler that looks now and then follows it, and a replica that crashes or
// loads its model does not lower it.
#include <cstdint>
#include <optional>
#include <string_view>

#include "cluster/policy/slo_scaling.h"
#include "cluster/types.h"

namespace cheetah::cluster {

struct ScaleLimits {
  double queue_length = 0;  // jobs or choices waiting, per replica
  double utilization = 0;   // share of time or places in use
  double kv_usage = 0;      // share of pages held
  // 0: this number is not looked at.
  bool operator==(const ScaleLimits&) const = default;
};

struct PoolScaling {
  int64_t min_replicas = 1, max_replicas = 1;
  ScaleLimits up, down;

  bool operator==(const PoolScaling&) const = default;
};

struct AutoscaleConfig {
  bool enabled = false;
  PoolScaling prefill{.min_replicas = 1, .max_replicas = 12, .up = {8, 0.8, 0}, .down = {2, 0.4, 0}};
  PoolScaling decode{.min_replicas = 1, .max_replicas = 24, .up = {16, 0, 0.75}, .down = {4, 0, 0.3}};
  int64_t samples_up = 2, samples_down = 6;  // in a row
  int64_t cooldown_up_ms = 30'000, cooldown_down_ms = 300'000;
  int64_t max_step_up = 2;  // replicas at once; down always one
  SloScaling slo;           // where it is enabled, instead of the rules above
  bool operator==(const AutoscaleConfig&) const = default;
};

struct PoolSample {
  int64_t replicas = 0;  // that are there or starting
  double queue_length = 0, utilization = 0, kv_usage = 0;
};

enum class ScaleReason : uint8_t {
  kHold,
  kBelowMin,
  kAboveMax,
  kQueueHigh,
  kUtilizationHigh,
  kKvHigh,
  kAllLow,
  kWaitingForSamples,
  kCooldown,
  kPredicted,  // by the goals and the predicted load
  kNoRates,    // nothing has been measured yet
};
std::string_view name_of(ScaleReason reason);

struct ScaleDecision {
  int64_t desired = 0;
  ScaleReason reason = ScaleReason::kHold;
};

struct PoolScaleState {
  std::optional<int64_t> desired;  // the present wish
  int64_t replicas = 0;            // in the last sample
  int64_t high = 0, low = 0;       // samples in a row
  bool changed = false;
  Time last_change{};
};

ScaleDecision scale(const PoolSample& sample, const PoolScaling& limits, const AutoscaleConfig& config,
    Time now, PoolScaleState& state);

}  // namespace cheetah::cluster
