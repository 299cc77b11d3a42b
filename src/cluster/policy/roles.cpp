#include "cluster/policy/roles.h"

#include <algorithm>
#include <array>
#include <cmath>

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
    if (w.role != from || w.state != WorkerState::kReady) continue;
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
  const Pools then = {.prefill = pools.prefill + (prefill_short ? 1 : -1),
                      .decode = pools.decode + (prefill_short ? -1 : 1)};
  if (then.prefill < config.min_prefill || then.decode < config.min_decode) return FlipReason::kAtMinimum;
  if (!helps(mix, pools, then)) return FlipReason::kWouldNotHelp;
  return prefill_short ? FlipReason::kPrefillShort : FlipReason::kDecodeShort;
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
  constexpr std::array<std::string_view, 12> kNames = {
      "off",      "balanced", "idle",       "unknown",        "flipping",      "waiting_for_samples",
      "cooldown", "dwell",    "at_minimum", "would_not_help", "prefill_short", "decode_short"};
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
  state = {.flipped = true, .last_flip = now};
  return decision;
}

}  // namespace cheetah::cluster
