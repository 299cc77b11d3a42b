// SPDX-License-Identifier: MIT
#pragma once
// Moving workers between prefill and decode as the traffic changes.
// Imbalance I = (input tokens/s by prefill capacity) / (output tokens/s by decode capacity): above 1 + band
// prefill is the short pool, below 1 - band decode is. One worker moves at a time, after its minimum dwell,
// and only if the imbalance gets smaller by it and its own pool keeps its minimum. A pool below its minimum is
// refilled from the other whatever the traffic, after as many samples as tell a loss from a restart.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cluster/types.h"

namespace cheetah::cluster {

struct FlipConfig {
  bool enabled = true;
  double band = 0.2;
  int64_t dwell_ms = 60'000;     // of a worker in its role
  int64_t cooldown_ms = 10'000;  // between any two flips
  int64_t min_prefill = 1, min_decode = 1;
  double min_utilization = 0.5;  // of the short pool; below it nothing needs to move
  int64_t samples = 3;           // in a row with the same verdict
  bool operator==(const FlipConfig&) const = default;
};

struct FlipWorker {
  WorkerId id{};
  Role role = Role::kDecode;  // only prefill and decode move
  WorkerState state = WorkerState::kReady;
  Time role_since{};
  int64_t active = 0;  // choices or jobs it would have to finish first
  bool fixed = false;  // its role is an operator's: it is not moved
};

struct TrafficMix {
  double input_tokens_per_s = 0, output_tokens_per_s = 0;
  double prefill_tokens_per_s = 0, decode_tokens_per_s = 0;  // what one worker can do
  double prefill_backlog_s = 0, decode_backlog_s = 0;        // time the waiting work of each pool takes it
};

enum class FlipReason : uint8_t {
  kOff,
  kBalanced,
  kIdle,
  kUnknown,   // no rates yet
  kFlipping,  // one is under way
  kWaitingForSamples,
  kCooldown,
  kDwell,
  kAtMinimum,
  kWouldNotHelp,
  kPrefillShort,
  kDecodeShort,
  kBelowMinimum,  // a pool has lost workers: the other refills it
};
std::string_view name_of(FlipReason reason);

struct FlipDecision {
  std::optional<WorkerId> worker = {};  // drain it, then give it the role
  Role to = Role::kDecode;
  FlipReason reason = FlipReason::kBalanced;
  double imbalance = 1;
};

struct FlipState {
  int64_t prefill_short = 0, decode_short = 0;  // samples in a row
  bool flipped = false;
  Time last_flip{};
  int64_t below_minimum = 0;                     // samples in a row with a pool below its minimum
  bool had_prefill = false, had_decode = false;  // the pool has had its minimum: it is not merely starting
  std::optional<WorkerId> refill;                // the last worker that was moved to refill a pool
};

double imbalance(const TrafficMix& mix, int64_t num_prefill, int64_t num_decode);
FlipDecision plan_flip(const std::vector<FlipWorker>& workers, const TrafficMix& mix,
    const FlipConfig& config, Time now, FlipState& state);

}  // namespace cheetah::cluster
