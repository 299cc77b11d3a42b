// SPDX-License-Identifier: MIT
#include "cluster/policy/roles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>

namespace cheetah::cluster {
namespace {

struct Pools {
  int64_t prefill = 0, decode = 0;
  bool flipping = false;
};

Pools pools_of(const std::vector<FlipWorker>& workers) {
  Pools pools;
  for (const FlipWorker& w : workers) {
    pools.flipping = pools.flipping || w.state != WorkerState::kReady;
    if (w.state != WorkerState::kReady) continue;
    if (w.role == Role::kPrefill) ++pools.prefill;
    if (w.role == Role::kDecode) ++pools.decode;
  }
  return pools;
}

// Demand by capacity. Work that waits is demand too: it is to be done within this many seconds.
constexpr double kBacklogSeconds = 5;
double utilization(double tokens_per_s, double worker_tokens_per_s, double backlog_s, int64_t workers) {
  const double capacity = worker_tokens_per_s * static_cast<double>(std::max<int64_t>(1, workers));
  return tokens_per_s / capacity + backlog_s / kBacklogSeconds;
}
double prefill_utilization(const TrafficMix& mix, int64_t workers) {
  return utilization(mix.input_tokens_per_s, mix.prefill_tokens_per_s, mix.prefill_backlog_s, workers);
}
double decode_utilization(const TrafficMix& mix, int64_t workers) {
  return utilization(mix.output_tokens_per_s, mix.decode_tokens_per_s, mix.decode_backlog_s, workers);
}

// The backlog counted for the workers there are now is another one for more or fewer of them.
TrafficMix with_backlog_for(TrafficMix mix, const Pools& now, const Pools& then) {
  const auto scaled = [](double backlog, int64_t before, int64_t after) {
    return backlog * static_cast<double>(std::max<int64_t>(1, before)) /
           static_cast<double>(std::max<int64_t>(1, after));
  };
  mix.prefill_backlog_s = scaled(mix.prefill_backlog_s, now.prefill, then.prefill);
  mix.decode_backlog_s = scaled(mix.decode_backlog_s, now.decode, then.decode);
  return mix;
}

bool helps(const TrafficMix& mix, const Pools& now, const Pools& then) {
  const TrafficMix after = with_backlog_for(mix, now, then);
  const double worst_now =
      std::max(prefill_utilization(mix, now.prefill), decode_utilization(mix, now.decode));
  const double worst_then =
      std::max(prefill_utilization(after, then.prefill), decode_utilization(after, then.decode));
  return worst_then < worst_now;
}

// The one with the least to finish; of those that have been long enough in their role.
const FlipWorker* mover(const std::vector<FlipWorker>& workers, Role from, int64_t dwell_ms, Time now) {
  const FlipWorker* best = nullptr;
  for (const FlipWorker& w : workers) {
    if (w.role != from || w.state != WorkerState::kReady || w.fixed) continue;
    if (now - w.role_since < std::chrono::milliseconds(dwell_ms)) continue;
    if (!best || std::pair(w.active, w.id) < std::pair(best->active, best->id)) best = &w;
  }
  return best;
}

FlipReason obstacle(const Pools& pools, bool prefill_short, const TrafficMix& mix, const FlipConfig& config,
    Time now, const FlipState& state) {
  const int64_t streak = prefill_short ? state.prefill_short : state.decode_short;
  if (streak < config.samples) return FlipReason::kWaitingForSamples;
  if (state.flipped && now - state.last_flip < std::chrono::milliseconds(config.cooldown_ms))
    return FlipReason::kCooldown;
  const Pools then = {
      .prefill = pools.prefill + (prefill_short ? 1 : -1), .decode = pools.decode + (prefill_short ? -1 : 1)};
  if (then.prefill < config.min_prefill || then.decode < config.min_decode) return FlipReason::kAtMinimum;
  if (!helps(mix, pools, then)) return FlipReason::kWouldNotHelp;
  return prefill_short ? FlipReason::kPrefillShort : FlipReason::kDecodeShort;
}

// A pool that has never had its minimum is still starting for so many times the samples of one that lost it.
constexpr int64_t kStartingFactor = 10;

// The pool to refill: one with fewer workers than its minimum, ready or starting. Decoding comes first, for
// without it nothing is answered; then even the last prefill worker is worth more there.
std::optional<Role> pool_to_refill(
    const std::vector<FlipWorker>& workers, const FlipConfig& config, FlipState& state) {
  int64_t prefill = 0, decode = 0, ready_prefill = 0, ready_decode = 0;
  for (const FlipWorker& w : workers) {
    if (w.state == WorkerState::kDraining) continue;
    ++(w.role == Role::kPrefill ? prefill : decode);
    if (w.state == WorkerState::kReady) ++(w.role == Role::kPrefill ? ready_prefill : ready_decode);
  }
  state.had_prefill = state.had_prefill || prefill >= config.min_prefill;
  state.had_decode = state.had_decode || decode >= config.min_decode;
  std::optional<Role> pool;
  if (decode < config.min_decode && ready_prefill > 0 && (prefill > config.min_prefill || decode == 0))
    pool = Role::kDecode;
  else if (prefill < config.min_prefill && ready_decode > 0 && decode > config.min_decode)
    pool = Role::kPrefill;
  state.below_minimum = pool ? state.below_minimum + 1 : 0;
  const bool lost = pool == Role::kDecode ? state.had_decode : state.had_prefill;
  return state.below_minimum >= config.samples * (lost ? 1 : kStartingFactor) ? pool : std::nullopt;
}

// The one that has been longest in its role: a worker refuses to move again soon.
const FlipWorker* refiller(const std::vector<FlipWorker>& workers, Role from) {
  const FlipWorker* best = nullptr;
  for (const FlipWorker& w : workers) {
    if (w.role != from || w.state != WorkerState::kReady || w.fixed) continue;
    if (!best ||
        std::tuple(w.role_since, w.active, w.id) < std::tuple(best->role_since, best->active, best->id))
      best = &w;
  }
  return best;
}

// A flip takes as long as the worker needs to finish what it has; until then no other is moved.
bool refilling(const std::vector<FlipWorker>& workers, const FlipState& state) {
  if (!state.refill) return false;
  const auto moved = std::ranges::find(workers, *state.refill, &FlipWorker::id);
  return moved != workers.end() && moved->state == WorkerState::kDraining;
}

FlipReason verdict(const Pools& pools, const TrafficMix& mix, const FlipConfig& config, double ratio) {
  if (!config.enabled) return FlipReason::kOff;
  if (pools.flipping) return FlipReason::kFlipping;
  if (mix.prefill_tokens_per_s <= 0 || mix.decode_tokens_per_s <= 0 || pools.prefill + pools.decode == 0)
    return FlipReason::kUnknown;
  if (ratio <= 1 + config.band && ratio >= 1 - config.band) return FlipReason::kBalanced;
  const bool prefill_short = ratio > 1;
  const double busy =
      prefill_short ? prefill_utilization(mix, pools.prefill) : decode_utilization(mix, pools.decode);
  if (busy < config.min_utilization) return FlipReason::kIdle;
  return prefill_short ? FlipReason::kPrefillShort : FlipReason::kDecodeShort;
}

}  // namespace

std::string_view name_of(FlipReason reason) {
  constexpr std::array<std::string_view, 13> kNames = {"off", "balanced", "idle", "unknown", "flipping",
      "waiting_for_samples", "cooldown", "dwell", "at_minimum", "would_not_help", "prefill_short",
      "decode_short", "below_minimum"};
  return kNames.at(static_cast<size_t>(reason));
}

double imbalance(const TrafficMix& mix, int64_t num_prefill, int64_t num_decode) {
  if (mix.prefill_tokens_per_s <= 0 || mix.decode_tokens_per_s <= 0) return 1;
  const double in = prefill_utilization(mix, num_prefill), out = decode_utilization(mix, num_decode);
  if (in <= 0 && out <= 0) return 1;
  // Bounded, so that a phase without any traffic still gives a number.
  return std::clamp(in / std::max(out, 1e-6), 1e-3, 1e3);
}

FlipDecision plan_flip(const std::vector<FlipWorker>& workers, const TrafficMix& mix,
    const FlipConfig& config, Time now, FlipState& state) {
  const Pools pools = pools_of(workers);
  const std::optional<Role> pool = pool_to_refill(workers, config, state);
  if (config.enabled && pool) {
    FlipDecision decision{.to = *pool,
        .reason = FlipReason::kBelowMinimum,
        .imbalance = imbalance(mix, pools.prefill, pools.decode)};
    if (refilling(workers, state)) return decision;
    const FlipWorker* worker = refiller(workers, *pool == Role::kDecode ? Role::kPrefill : Role::kDecode);
    if (!worker) return decision;  // all that could are an operator's
    decision.worker = worker->id;
    state.flipped = true;
    state.last_flip = now;
    state.refill = decision.worker;
    return decision;
  }
  FlipDecision decision{.imbalance = imbalance(mix, pools.prefill, pools.decode)};
  decision.reason = verdict(pools, mix, config, decision.imbalance);
  const bool prefill_short = decision.reason == FlipReason::kPrefillShort;
  const bool decode_short = decision.reason == FlipReason::kDecodeShort;
  state.prefill_short = prefill_short ? state.prefill_short + 1 : 0;
  state.decode_short = decode_short ? state.decode_short + 1 : 0;
  if (!prefill_short && !decode_short) return decision;
  decision.to = prefill_short ? Role::kPrefill : Role::kDecode;
  const FlipReason found = obstacle(pools, prefill_short, mix, config, now, state);
  if (found != decision.reason) return decision.reason = found, decision;
  const FlipWorker* worker =
      mover(workers, prefill_short ? Role::kDecode : Role::kPrefill, config.dwell_ms, now);
  if (!worker) return decision.reason = FlipReason::kDwell, decision;
  decision.worker = worker->id;
  state.prefill_short = state.decode_short = 0;
  state.flipped = true;
  state.last_flip = now;
  return decision;
}

}  // namespace cheetah::cluster
