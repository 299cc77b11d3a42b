// SPDX-License-Identifier: MIT
#include "cluster/policy/admission.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/time.h"

namespace cheetah::cluster {
namespace {

constexpr double kIdleSlack = 0.2;  // of a target: waiting that is no overload yet
constexpr double kMinRetryS = 1, kMaxRetryS = 60;

bool equal_without_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool matches(const QosMatch& rule, const Headers& headers, const std::string& tenant) {
  if (rule.header.empty()) return rule.value == tenant;
  return std::ranges::any_of(headers, [&](const auto& header) {
    return equal_without_case(header.first, rule.header) && header.second == rule.value;
  });
}

AdmissionDecision reject(AdmissionDecision decision, RejectReason reason, double retry_s) {
  decision.verdict = Verdict::kReject;
  decision.reason = reason;
  decision.degradation = {};
  decision.retry_after_s = std::clamp(std::ceil(retry_s), kMinRetryS, kMaxRetryS);
  return decision;
}

// By when what stands in the way will have gone, roughly.
double retry_after_s(const Prediction& prediction, const QosClass& qos_class) {
  return (prediction.ttft_ms - qos_class.ttft_slo_ms) / 1e3;
}

// The tokens a tenant pays for: the prompt once, the output of each choice.
int64_t charged_tokens(const AdmissionRequest& request, const Degradation& degradation) {
  int64_t output = request.max_output > 0 ? request.max_output : request.route.expected_output;
  if (degradation.max_output > 0) output = std::min(output, degradation.max_output);
  return request.route.prompt_tokens + output * request.route.choices;
}

struct Judged {
  Verdict verdict = Verdict::kAccept;
  RejectReason reason = RejectReason::kNone;
  Prediction prediction = {};
  Degradation degradation = {};
};

Degradation degradation_of(const AdmissionRequest& request, const QosConfig& qos) {
  Degradation lighter;
  if (qos.degraded_output > 0 && (request.max_output == 0 || request.max_output > qos.degraded_output))
    lighter.max_output = qos.degraded_output;
  lighter.no_remote_prefill = qos.degrade_no_remote;
  return lighter;
}

// The urgent overtake the others: a request waits only for the work of classes as urgent as its own.
Prediction for_class(Prediction prediction, int class_index, const ModelState& state) {
  const Shares& shares = state.shares;
  const auto measured = state.ttft_ratios.find(shares.name(class_index));
  const double correction = measured == state.ttft_ratios.end() ? 1 : measured->second.value_or(1);
  const double wait_ms = prediction.wait_ms * shares.share_ahead_of(class_index);
  prediction.model_ttft_ms = prediction.ttft_ms + wait_ms - prediction.wait_ms;
  prediction.ttft_ms = correction * prediction.model_ttft_ms;
  prediction.wait_ms = correction * wait_ms;
  return prediction;
}

Judged predict_and_judge(const ClusterView& view, const AdmissionRequest& request, const QosConfig& qos,
    const RoutingConfig& routing, const ModelState& state) {
  QosClass qos_class = qos.classes.at(static_cast<size_t>(request.class_index));
  // What is reserved is its own: within it a class is not refused for how busy others make the cluster.
  const int64_t after = state.shares.in_use(request.class_index) + request.route.choices;
  if (after <= state.shares.reserved(request.class_index)) qos_class.reject_early = false;
  const auto predicted = [&](const RouteRequest& route) {
    return for_class(predict(view, route, routing, state.estimates), request.class_index, state);
  };
  Judged judged{.prediction = predicted(request.route)};
  judged.reason = qos.enabled                  ? judge(judged.prediction, qos_class, qos)
                  : judged.prediction.possible ? RejectReason::kNone
                                               : RejectReason::kNoWorker;
  if (judged.reason == RejectReason::kNone) return judged;
  judged.verdict = Verdict::kReject;
  if (!qos_class.degrade || judged.reason == RejectReason::kNoWorker) return judged;
  RouteRequest lighter = request.route;
  const Degradation degradation = degradation_of(request, qos);
  if (degradation.no_remote_prefill) lighter.allow_remote_prefill = false;
  const Prediction prediction = predicted(lighter);
  if (judge(prediction, qos_class, qos, qos.degraded_slo_factor) != RejectReason::kNone) return judged;
  return {.verdict = Verdict::kDegrade, .prediction = prediction, .degradation = degradation};
}

struct Asked {
  const ClusterView& view;
  const AdmissionRequest& request;
  const QosConfig& qos;
  const RoutingConfig& routing;
  Time now{};

  const QosClass& qos_class() const { return qos.classes.at(static_cast<size_t>(request.class_index)); }
};

// With shares as large as the cluster is now, or was last: while no worker is there the shares still hold.
ModelState& model_state(const Asked& asked, const std::string& model, AdmissionState& state) {
  ModelState& its = state_of(model, asked.qos, state);
  if (const int64_t places = cluster_places(asked.view, model, asked.qos); places > 0)
    its.shares.resize(places);
  return its;
}

bool has_own_place(const Asked& asked, const Shares& shares) {
  const double share = asked.qos_class().reserved;
  const auto own = static_cast<double>(running_places(asked.view, asked.request.route.model)) * share;
  const int64_t after = shares.in_use(asked.request.class_index) + asked.request.route.choices;
  return static_cast<double>(after) <= own + 1e-9;
}

AdmissionDecision admit_as_asked(const Asked& asked, AdmissionState& state) {
  const auto& [view, request, qos, routing, now] = asked;
  const QosClass& qos_class = asked.qos_class();
  ModelState& its = model_state(asked, request.route.model, state);
  const Judged judged = predict_and_judge(view, request, qos, routing, its);
  AdmissionDecision decision{.qos_class = qos_class.name,
      .degradation = judged.degradation,
      .prediction = judged.prediction,
      .model = request.route.model,
      .own_place = qos.enabled && has_own_place(asked, its.shares)};
  // Without a worker it waits for one; its share and its quota are taken all the same.
  const bool waits = judged.reason == RejectReason::kNoWorker;
  if (judged.verdict == Verdict::kReject && !waits) {
    const bool blocked = judged.reason == RejectReason::kTtftPredicted && view.prefill_breaker_open;
    return reject(std::move(decision), blocked ? RejectReason::kPrefillBreaker : judged.reason,
        blocked ? seconds(its.prefill_breaker.opens_in(now, qos.prefill_breaker))
                : retry_after_s(judged.prediction, qos_class));
  }
  decision.reason = judged.reason;
  decision.verdict = request.degraded_before ? Verdict::kDegrade : waits ? Verdict::kAccept : judged.verdict;
  if (!qos.enabled) return decision;
  ShareAnswer share = its.shares.ask(request.class_index, request.route.choices);
  const bool never_had_a_worker = waits && its.shares.capacity() == 0;
  if (!share.granted && !never_had_a_worker)
    return reject(std::move(decision), RejectReason::kShare, retry_after_s(judged.prediction, qos_class));
  const int64_t charged = charged_tokens(request, decision.degradation);
  if (const auto wait = state.quotas.take(request.tenant, charged, now, qos))
    return reject(std::move(decision), RejectReason::kQuota, seconds(*wait));
  if (!its.decode_breaker.allow(now, qos.decode_breaker)) {  // last: it counts those it lets through
    state.quotas.give_back(request.tenant, charged, qos);
    return reject(std::move(decision), RejectReason::kDecodeBreaker,
        seconds(its.decode_breaker.opens_in(now, qos.decode_breaker)));
  }
  its.shares.take(request.class_index, request.route.choices, share.give_back);
  decision.places = request.route.choices;
  decision.quota_tokens = charged;
  decision.give_back = std::move(share.give_back);
  return decision;
}

// Whether its class waits rather than is refused, and it would wait for too long.
bool goes_elsewhere_when_late(const Asked& asked, AdmissionState& state) {
  const auto& [view, request, qos, routing, now] = asked;
  QosClass qos_class = asked.qos_class();
  if (!qos.enabled || request.other_model.empty() || qos_class.reject_early) return false;
  ModelState& its = model_state(asked, request.route.model, state);
  if (has_own_place(asked, its.shares)) return false;
  qos_class.reject_early = true;
  const Prediction prediction =
      for_class(predict(view, request.route, routing, its.estimates), request.class_index, its);
  return judge(prediction, qos_class, qos) == RejectReason::kTtftPredicted;
}

// Takes nothing: the request comes again with the other model's tokens, and is then admitted as any other.
AdmissionDecision to_other_model(const Asked& asked, AdmissionState& state) {
  AdmissionDecision decision{.qos_class = asked.qos_class().name, .reason = RejectReason::kTtftPredicted};
  if (!asked.qos.enabled || asked.request.other_model.empty()) return decision;
  AdmissionRequest request = asked.request;
  request.route.model = request.other_model;
  request.route.cached.clear();
  ModelState& its = model_state(asked, request.other_model, state);
  QosClass qos_class = asked.qos_class();
  qos_class.reject_early = true;  // late there too: no reason to go
  decision.prediction =
      for_class(predict(asked.view, request.route, asked.routing, its.estimates), request.class_index, its);
  const bool room = its.shares.ask(request.class_index, request.route.choices).granted &&
                    its.decode_breaker.state(asked.now) != BreakerState::kOpen;
  if (room && judge(decision.prediction, qos_class, asked.qos) == RejectReason::kNone)
    decision.verdict = Verdict::kOtherModel;
  return decision;
}

}  // namespace

std::string_view name_of(RejectReason reason) {
  constexpr std::array<std::string_view, kNumRejectReasons> kNames = {"none", "ttft_predicted",
      "tpot_predicted", "decode_share", "queue_time", "prefill_breaker", "decode_breaker", "quota", "share",
      "no_worker"};
  return kNames.at(static_cast<size_t>(reason));
}

int http_status(RejectReason reason) { return reason == RejectReason::kQuota ? 429 : 503; }

int class_of(const Headers& headers, const std::string& tenant, const QosConfig& config) {
  const auto index = [&](const std::string& name) {
    const auto found = std::ranges::find(config.classes, name, &QosClass::name);
    CHEETAH_ASSERT(found != config.classes.end(), "the configuration was checked when it was read");
    return static_cast<int>(found - config.classes.begin());
  };
  for (const QosMatch& rule : config.matches)
    if (matches(rule, headers, tenant)) return index(rule.qos_class);
  return index(config.default_class);
}

ModelState& state_of(const std::string& model, const QosConfig& qos, AdmissionState& state) {
  const auto [found, is_new] = state.models.try_emplace(model);
  if (is_new) found->second.shares.reconfigure(qos.classes, qos.borrow_limit);
  return found->second;
}

int64_t running_places(const ClusterView& view, const std::string& model) {
  int64_t places = 0;
  for (const WorkerView& worker : view.workers)
    if (worker.reachable && worker.descriptor.state == WorkerState::kReady &&
        serves_decode(worker.descriptor.role) && (model.empty() || worker.descriptor.model == model))
      places += worker.descriptor.max_sequences;
  return places;
}

int64_t cluster_places(const ClusterView& view, const std::string& model, const QosConfig& qos) {
  return static_cast<int64_t>(static_cast<double>(running_places(view, model)) * (1 + qos.queue_places));
}

int32_t urgency_of(const AdmissionDecision& decision, const QosClass& qos_class) {
  return qos_class.priority + (decision.own_place ? kOwnPlaceLevels : 0);
}

const std::string& degrade_model_of(const QosClass& qos_class, const QosConfig& qos) {
  return qos_class.degrade_to.empty() && qos_class.degrade ? qos.degrade_to : qos_class.degrade_to;
}

RejectReason judge(
    const Prediction& prediction, const QosClass& qos_class, const QosConfig& qos, double factor) {
  if (!prediction.possible) return RejectReason::kNoWorker;
  const double wait = prediction.wait_ms * qos.safety, tpot = prediction.tpot_ms * qos.safety;
  const double own = (prediction.ttft_ms - prediction.wait_ms) * qos.safety;
  if (wait > static_cast<double>(qos.max_queue_ms)) return RejectReason::kQueueTime;
  if (!qos.early_rejection || !qos_class.reject_early) return RejectReason::kNone;
  // One that would be late on an idle cluster too is not refused for that: coming back later would not help
  // it.
  const double target = qos_class.ttft_slo_ms * factor;
  if (target > 0 && wait > std::max(target - own, kIdleSlack * target)) return RejectReason::kTtftPredicted;
  if (qos_class.tpot_slo_ms > 0 && tpot > qos_class.tpot_slo_ms * factor) return RejectReason::kTpotPredicted;
  if (prediction.cluster_decode_share > qos.max_decode_share * factor) return RejectReason::kDecodeShare;
  return RejectReason::kNone;
}

AdmissionDecision admit(const ClusterView& view, const AdmissionRequest& request, const QosConfig& qos,
    const RoutingConfig& routing, Time now, AdmissionState& state) {
  const Asked asked{view, request, qos, routing, now};
  // One that would be late is better answered in time by another model, even where it would be let in here.
  if (goes_elsewhere_when_late(asked, state)) {
    AdmissionDecision decision = to_other_model(asked, state);
    if (decision.verdict == Verdict::kOtherModel) return decision;
  }
  AdmissionDecision decision = admit_as_asked(asked, state);
  if (decision.reason == RejectReason::kNone || decision.reason == RejectReason::kQuota) return decision;
  AdmissionDecision other = to_other_model(asked, state);
  if (other.verdict != Verdict::kOtherModel) return decision;
  finish(request.tenant, decision, decision.quota_tokens, qos, state);  // what it took to wait for a worker
  other.reason = decision.reason;
  return other;
}

void first_token_came(
    const AdmissionDecision& decision, double ttft_ms, const QosConfig& qos, AdmissionState& state) {
  if (decision.prediction.model_ttft_ms <= 0) return;
  // A model that is wrong by more than this is not corrected but distrusted; and one first token that was
  // kept up for a second must not be remembered for hundreds of requests.
  const double ratio = std::clamp(ttft_ms / decision.prediction.model_ttft_ms, 0.25, 4.0);
  state.models[decision.model].ttft_ratios[decision.qos_class].add(ratio, qos.ema_alpha);
}

void finish(const std::string& tenant, const AdmissionDecision& decision, int64_t unused_tokens,
    const QosConfig& qos, AdmissionState& state) {
  if (decision.verdict == Verdict::kReject || decision.verdict == Verdict::kOtherModel) return;
  state.models[decision.model].shares.release(decision.qos_class, decision.places);
  state.quotas.give_back(tenant, std::clamp<int64_t>(unused_tokens, 0, decision.quota_tokens), qos);
}

}  // namespace cheetah::cluster
