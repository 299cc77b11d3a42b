// SPDX-License-Identifier: MIT
#include "cluster/policy/offload.h"

#include <algorithm>

#include "cluster/policy/predict.h"

namespace cheetah::cluster {
namespace {

OffloadAnswer local(PrefillReason reason) { return {.mode = PrefillMode::kLocal, .reason = reason}; }
OffloadAnswer remote(PrefillReason reason) { return {.mode = PrefillMode::kRemote, .reason = reason}; }

double metric_of(const OffloadInputs& inputs, OffloadMetric metric) {
  switch (metric) {
    case OffloadMetric::kPrefillLength:
      return static_cast<double>(inputs.effective_tokens);
    case OffloadMetric::kPrefillQueueDepth:
      return static_cast<double>(inputs.queue_depth);
    case OffloadMetric::kDecodeLoad:
      return inputs.decode_load;
    case OffloadMetric::kMatchedFraction:
      return inputs.matched_fraction;
  }
  return 0;
}

OffloadInputs inputs_of(const ClusterView& view, const WorkerView& decode, const RouteRequest& request,
    const RoutingConfig& config) {
  return {.effective_tokens = effective_tokens(request, decode.descriptor.id),
      .queue_depth = view.prefill_queue.depth,
      .decode_active = active_choices(decode),
      .decode_load = slot_share(decode),
      .matched_fraction = matched_fraction(request, decode.descriptor.id),
      .urgent = request.priority >= config.urgent_priority};
}

// What makes it impossible or pointless, whatever the policy.
std::optional<PrefillReason> obstacle(const ClusterView& view, const WorkerView& decode,
    const RouteRequest& request, const RoutingConfig& config) {
  if (!request.allow_remote_prefill) return PrefillReason::kNotAsked;
  if (config.offload_policy == OffloadPolicy::kNever) return PrefillReason::kPolicyNever;
  // Pages move whole and the last token is always computed here: less than a page left means nothing to move.
  const int64_t page = std::max(1, decode.descriptor.kv.page_tokens);
  const WorkerId id = decode.descriptor.id;
  if (cached_tokens(request, id) > 0 && effective_tokens(request, id) <= page) return PrefillReason::kCached;
  if (request.prompt_tokens <= page) return PrefillReason::kShortPrompt;
  if (view.prefill_breaker_open) return PrefillReason::kBreakerOpen;
  if (!view.prefill_queue.up) return PrefillReason::kQueueDown;
  return std::nullopt;
}

OffloadAnswer by_cost(
    const WorkerView& decode, const RouteRequest& request, const CostModel& cost, double remote_ms) {
  const int64_t tokens = effective_tokens(request, decode.descriptor.id);
  // While a worker computes a prompt its running choices wait: what they lose counts too.
  const double disturbed =
      cost.interference * std::min(1.0, slot_share(decode)) * prefill_ms(decode, tokens, cost);
  const double local_ms = local_ttft_ms(decode, request, cost);
  OffloadAnswer answer = remote_ms + cost.margin_ms < local_ms + disturbed
                             ? remote(PrefillReason::kRemoteFaster)
                             : local(PrefillReason::kLocalFaster);
  answer.local_ms = local_ms;
  answer.remote_ms = remote_ms;
  return answer;
}

OffloadAnswer by_policy(const WorkerView& decode, const RouteRequest& request, const RoutingConfig& config,
    const OffloadInputs& inputs, double remote_ms) {
  switch (config.offload_policy) {
    case OffloadPolicy::kNever:
      return local(PrefillReason::kPolicyNever);
    case OffloadPolicy::kAlways:
      return remote(PrefillReason::kPolicyAlways);
    case OffloadPolicy::kThreshold:
      return threshold_offload(inputs, config.threshold);
    case OffloadPolicy::kCost:
      return by_cost(decode, request, config.cost, remote_ms);
    case OffloadPolicy::kScore:
      break;
  }
  const double score = offload_score(inputs, config.rules);
  OffloadAnswer answer = score > config.remote_min_score ? remote(PrefillReason::kScoreAbove)
                                                         : local(PrefillReason::kScoreBelow);
  answer.score = score;
  return answer;
}

}  // namespace

OffloadAnswer threshold_offload(const OffloadInputs& inputs, const ThresholdOffload& config) {
  const bool room = inputs.urgent || inputs.queue_depth < config.max_queue;
  const bool is_long = inputs.effective_tokens >= config.prefill_length;
  const bool busy =
      inputs.decode_active >= config.busy_choices && inputs.effective_tokens >= config.moderate_length;
  if (!is_long && !busy) return local(PrefillReason::kShortPrompt);
  if (!room) return local(PrefillReason::kQueueDeep);
  return remote(is_long ? PrefillReason::kLongPrompt : PrefillReason::kBusyDecode);
}

double offload_score(const OffloadInputs& inputs, const std::vector<OffloadRule>& rules) {
  double score = 0;
  for (const OffloadRule& rule : rules) {
    if (!(metric_of(inputs, rule.metric) > rule.threshold)) continue;
    score += rule.action == OffloadAction::kPreferRemote ? rule.weight : -rule.weight;
  }
  return score;
}

OffloadAnswer decide_by_policy(const ClusterView& view, const WorkerView& decode, const RouteRequest& request,
    const RoutingConfig& config) {
  const auto with_local_times = [&](OffloadAnswer answer) {
    answer.local_ms = local_ttft_ms(decode, request, config.cost);
    if (answer.mode == PrefillMode::kLocal) answer.wait_ms = local_wait_ms(decode, request, config.cost);
    return answer;
  };
  if (const auto why = obstacle(view, decode, request, config)) return with_local_times(local(*why));
  const auto prefill = best_remote(view, decode, request, config);
  if (!prefill) return with_local_times(local(PrefillReason::kNoPrefillWorker));
  const OffloadInputs inputs = inputs_of(view, decode, request, config);
  OffloadAnswer answer = by_policy(decode, request, config, inputs, prefill->ttft_ms);
  answer.remote_ms = prefill->ttft_ms;
  answer.prefill_worker = prefill->worker;
  answer.wait_ms = prefill->wait_ms;
  return with_local_times(answer);
}

OffloadAnswer decide_prefill(const ClusterView& view, const WorkerView& decode, const RouteRequest& request,
    const RoutingConfig& config, WorthTable& worth) {
  OffloadAnswer answer = decide_by_policy(view, decode, request, config);
  if (answer.mode == PrefillMode::kRemote && config.offload_policy != OffloadPolicy::kAlways) {
    const WorthAnswer measured = worth.ask(effective_tokens(request, decode.descriptor.id), config.worth);
    if (!measured.disaggregate) answer.mode = PrefillMode::kLocal;
    if (measured.exploring)
      answer.reason = PrefillReason::kExploring;
    else if (!measured.disaggregate)
      answer.reason = PrefillReason::kMeasuredLoss;
  }
  if (answer.mode == PrefillMode::kLocal) answer.prefill_worker.reset();
  return answer;
}

}  // namespace cheetah::cluster
