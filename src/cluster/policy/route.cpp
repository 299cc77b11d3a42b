// SPDX-License-Identifier: MIT
#include "cluster/policy/route.h"

#include <algorithm>
#include <array>

#include "cluster/policy/offload.h"
#include "cluster/policy/predict.h"
#include "cluster/policy/worker_choice.h"

namespace cheetah::cluster {

void RouteMemory::note(uint64_t prefix_hash, WorkerId worker, int64_t limit) {
  if (prefix_hash == 0 || limit <= 0) return;
  if (static_cast<int64_t>(now_.size()) >= std::max<int64_t>(1, limit / 2) && !now_.contains(prefix_hash)) {
    before_ = std::move(now_);
    now_ = {};
  }
  now_[prefix_hash] = worker;
}

bool RouteMemory::recent(uint64_t prefix_hash, WorkerId worker) const {
  if (prefix_hash == 0) return false;
  const auto young = now_.find(prefix_hash);
  if (young != now_.end()) return young->second == worker;
  const auto old = before_.find(prefix_hash);
  return old != before_.end() && old->second == worker;
}

void RouteMemory::forget(WorkerId worker) {
  const auto is_its = [&](const auto& entry) { return entry.second == worker; };
  std::erase_if(now_, is_its);
  std::erase_if(before_, is_its);
}

Ineligible why_not(const WorkerView& worker, const RouteRequest& request, const RoutingConfig& config) {
  const WorkerDescriptor& d = worker.descriptor;
  if (d.state != WorkerState::kReady) return Ineligible::kNotReady;
  if (!worker.reachable) return Ineligible::kUnreachable;
  if (worker.load_age > std::chrono::milliseconds(config.silent_after_ms)) return Ineligible::kSilent;
  if (!request.model.empty() && d.model != request.model) return Ineligible::kOtherModel;
  if (d.max_context > 0 && request.prompt_tokens >= d.max_context) return Ineligible::kContextTooShort;
  if (!serves_decode(d.role)) return Ineligible::kWrongRole;
  if (std::ranges::find(request.excluded, d.id) != request.excluded.end()) return Ineligible::kExcluded;
  return Ineligible::kNone;
}

RouteDecision route(
    const ClusterView& view, const RouteRequest& request, const RoutingConfig& config, RouteMemory& memory) {
  WorkerChoice choice = choose_worker(view, request, config, memory, memory.next_turn());
  RouteDecision decision;
  decision.worker_policy = config.worker_policy;
  decision.offload_policy = config.offload_policy;
  decision.worker_reason = choice.reason;
  decision.scores = std::move(choice.scores);
  if (!choice.worker) return decision;
  const WorkerId id = choice.worker->descriptor.id;
  decision.decode = id;
  decision.effective_tokens = effective_tokens(request, id);
  const OffloadAnswer prefill = decide_prefill(view, *choice.worker, request, config, memory.worth);
  decision.prefill = prefill.mode;
  decision.prefill_reason = prefill.reason;
  decision.prefill_worker = prefill.prefill_worker;
  decision.local_ms = prefill.local_ms;
  decision.remote_ms = prefill.remote_ms;
  decision.offload_score = prefill.score;
  if (const auto fetch = best_fetch(view, *choice.worker, request, config, prefill.ttft_ms())) {
    decision.prefill = PrefillMode::kLocal;
    decision.prefill_reason = PrefillReason::kPrefixFetched;
    decision.prefill_worker.reset();
    decision.fetch_from = fetch->from;
    decision.fetch_tokens = fetch->tokens;
    decision.fetch_ms = fetch->ttft_ms;
  }
  const bool race = request.race || (config.race && request.priority >= config.urgent_priority);
  if (race && choice.second) decision.race = choice.second->descriptor.id;
  memory.note(request.prefix_hash, id, config.recent_prefixes);
  return decision;
}

std::string_view name_of(WorkerReason reason) {
  constexpr std::array<std::string_view, 10> kNames = {"no_worker", "only_one", "round_robin", "least_loaded",
      "prefix_hash", "prefix_spilled", "kv_match", "shortest_wait", "lowest_cost", "highest_score"};
  return kNames.at(static_cast<size_t>(reason));
}

std::string_view name_of(PrefillReason reason) {
  constexpr std::array<std::string_view, 18> kNames = {"not_asked", "policy_never", "policy_always",
      "long_prompt", "busy_decode", "short_prompt", "cached", "queue_deep", "queue_down", "breaker_open",
      "no_prefill_worker", "score_above", "score_below", "remote_faster", "local_faster", "measured_loss",
      "exploring", "prefix_fetched"};
  return kNames.at(static_cast<size_t>(reason));
}

std::string_view name_of(WorkerPolicy policy) {
  constexpr std::array<std::string_view, 7> kNames = {
      "round_robin", "least_loaded", "prefix_aware", "kv_aware", "load_cost", "latency_cost", "cache_score"};
  return kNames.at(static_cast<size_t>(policy));
}

std::string_view name_of(OffloadPolicy policy) {
  constexpr std::array<std::string_view, 5> kNames = {"never", "always", "threshold", "score", "cost"};
  return kNames.at(static_cast<size_t>(policy));
}

}  // namespace cheetah::cluster
