// SPDX-License-Identifier: MIT
#include "cluster/policy/policy_routing.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/time.h"

namespace cheetah::cluster {
namespace {

double milliseconds(Microseconds time) { return static_cast<double>(time.count()) / 1e3; }

bool contains(const std::vector<WorkerId>& workers, WorkerId id) {
  return std::ranges::find(workers, id) != workers.end();
}

// Those that failed this request or others lately, and where this process decodes itself, all others: only if
// there is nobody else.
std::vector<WorkerId> excluded_of(const RouteQuestion& question) {
  std::vector<WorkerId> excluded = question.lost;
  for (const auto& [id, worker] : question.workers)
    if (worker.held_off_until > question.now && !contains(excluded, id)) excluded.push_back(id);
  const auto self = question.workers.find(question.self);
  if (self == question.workers.end() || !self->second.reachable() || contains(excluded, question.self))
    return excluded;
  if (!question.client.model.empty() && self->second.descriptor.model != question.client.model)
    return excluded;
  for (const auto& [id, worker] : question.workers)
    if (id != question.self && !contains(excluded, id)) excluded.push_back(id);
  return excluded;
}

int64_t least_to_compute(const RouteRequest& request) {
  int64_t cached = 0;
  for (const KvMatch& match : request.cached) cached = std::max(cached, match.tokens);
  return std::max<int64_t>(1, request.prompt_tokens - cached);
}

double mean_rate(const KnownWorkers& workers) {
  double sum = 0, num = 0;
  for (const auto& [id, known] : workers)
    if (known.load.transfer_bytes_per_s > 0) sum += known.load.transfer_bytes_per_s, ++num;
  return num > 0 ? sum / num : 0;
}

}  // namespace

PolicyRouting::PolicyRouting(PolicyConfig config, BlockNames block_names, std::vector<ServedModel> models)
    : block_names_(std::move(block_names)), models_(std::move(models)) {
  configure(std::move(config));
  numbers_.config_reloads = 0;
}

void PolicyRouting::configure(PolicyConfig config) {
  const auto check = [this](const std::string& name) {
    if (!name.empty() && std::ranges::find(models_, name, &ServedModel::name) == models_.end())
      throw Error(format("degrade_to: the model '{}' is not served here", printable(name)));
  };
  check(config.qos.degrade_to);
  for (const QosClass& qos_class : config.qos.classes) check(qos_class.degrade_to);
  config_ = std::move(config);
  for (auto& [model, its] : admission_.models)
    its.shares.reconfigure(config_.qos.classes, config_.qos.borrow_limit);
  ++numbers_.config_reloads;
}

std::string PolicyRouting::other_model_of(const ClientRequest& client) const {
  if (!client.may_change_model || !client.degraded_from.empty()) return "";
  const QosClass& qos_class = config_.qos.classes.at(static_cast<size_t>(class_index_of(client)));
  const std::string& name = degrade_model_of(qos_class, config_.qos);
  const auto served = std::ranges::find(models_, name, &ServedModel::name);
  return served == models_.end() || served->model == client.model ? "" : served->model;
}

int PolicyRouting::class_index_of(const ClientRequest& client) const {
  const auto& classes = config_.qos.classes;
  const auto named = std::ranges::find(classes, client.qos_class, &QosClass::name);
  if (named != classes.end()) return static_cast<int>(named - classes.begin());
  return class_of({}, client.tenant, config_.qos);
}

ClusterView PolicyRouting::view_of(const RouteQuestion& question) {
  ClusterView view;
  for (const auto& [id, known] : question.workers) {
    WorkerView worker{.descriptor = known.descriptor, .load = known.load};
    worker.descriptor.id = id;
    // A worker that was linked a moment ago has not reported yet; its word of greeting counts as much.
    const Time reported = known.load_at == Time{} ? known.heard_at : known.load_at;
    worker.load_age = question.now - reported;
    worker.reachable = known.linked && !known.silent && !known.left;
    since_report_.bring_up_to_date(worker, known.load_at);
    view.workers.push_back(std::move(worker));
  }
  const double tokens = static_cast<double>(question.queue_depth) * prompt_tokens_.value_or(0);
  view.prefill_queue = {.up = true, .depth = question.queue_depth, .tokens = static_cast<int64_t>(tokens)};
  view.transfer_bytes_per_s = mean_rate(question.workers);
  const auto its = admission_.models.find(question.client.model);
  view.prefill_breaker_open = its != admission_.models.end() &&
                              its->second.prefill_breaker.state(question.now) == BreakerState::kOpen;
  return view;
}

RouteRequest PolicyRouting::request_of(const RouteQuestion& question) const {
  const ClientRequest& client = question.client;
  const GenerationRequest& wanted = client.request;
  const QosClass& qos_class = config_.qos.classes.at(static_cast<size_t>(class_index_of(client)));
  RouteRequest request;
  request.key.uid = client.uid;
  request.model = client.model;
  request.prompt_tokens = static_cast<int64_t>(wanted.prompt.size()) + question.generated;
  request.choices = std::max(1, std::max(wanted.n, wanted.best_of));
  const auto its = admission_.models.find(client.model);
  const Estimates estimates = its == admission_.models.end() ? Estimates{} : its->second.estimates;
  const auto usual =
      static_cast<int64_t>(estimates.output_tokens.value_or(static_cast<double>(wanted.max_tokens)));
  request.expected_output = std::min(wanted.max_tokens, std::max<int64_t>(1, usual));
  request.priority = qos_class.priority;
  request.ttft_slo_ms = qos_class.ttft_slo_ms;
  request.tpot_slo_ms = qos_class.tpot_slo_ms;
  request.excluded = excluded_of(question);
  request.race = client.race && question.generated == 0;
  const auto admitted = admitted_.find(client.uid);
  request.allow_remote_prefill =
      wanted.pooling == Pooling::kNone &&
      (admitted == admitted_.end() || !admitted->second.decision.degradation.no_remote_prefill);
  if (block_names_) find_cached(question, request);
  return request;
}

// A page's name depends on the page size, and workers may have several.
void PolicyRouting::find_cached(const RouteQuestion& question, RouteRequest& request) const {
  std::map<int64_t, std::vector<KvMatch>> by_page;
  for (const auto& [id, worker] : question.workers) {
    const int64_t page = std::max(1, worker.descriptor.kv.page_tokens);
    const auto [known, is_new] = by_page.try_emplace(page);
    if (is_new) {
      const std::vector<uint64_t> names = block_names_(question.client, page);
      if (names.empty()) continue;
      // What requests of one application share is at the beginning: a few pages tell applications apart.
      if (request.prefix_hash == 0) request.prefix_hash = names[std::min<size_t>(names.size(), 4) - 1];
      known->second = kv_index_.matches(names, page);
    }
    const auto match = std::ranges::find(known->second, id, &KvMatch::worker);
    if (match != known->second.end()) request.cached.push_back(*match);
  }
}

void PolicyRouting::learn_steps(const KnownWorkers& workers) {
  for (const auto& [id, known] : workers) {
    if (known.load.decode_step_us <= 0 || known.load_at <= std::exchange(learned_at_[id], known.load_at))
      continue;
    for (const std::string& model : {known.descriptor.model, std::string()})
      if (const auto its = admission_.models.find(model); its != admission_.models.end())
        its->second.estimates.steps.add(static_cast<double>(known.load.running), known.load.decode_step_us,
            config_.qos.ema_alpha / static_cast<double>(workers.size()));
  }
}

RefusedRequest PolicyRouting::refused(
    const RouteQuestion& question, const AdmissionRequest& request, const AdmissionDecision& decision) const {
  return {.time_s = seconds(question.now - *first_question_),
      .key = request.route.key,
      .qos_class = decision.qos_class,
      .prompt_tokens = request.route.prompt_tokens,
      .decision = decision};
}

Admission PolicyRouting::admit(const RouteQuestion& question) {
  if (!first_question_) first_question_ = question.now;
  learn_steps(question.workers);
  const ClientRequest& client = question.client;
  state_of(client.model, config_.qos, admission_)
      .prefill_breaker.depth_is(
          static_cast<double>(question.queue_depth), question.now, config_.qos.prefill_breaker);
  const AdmissionRequest request{.route = request_of(question),
      .tenant = client.tenant,
      .max_output = client.request.max_tokens,
      .class_index = class_index_of(client),
      .other_model = other_model_of(client),
      .degraded_before = !client.degraded_from.empty()};
  if (is_planned_for(client.model))
    planner_.arrived(request.route.prompt_tokens, least_to_compute(request.route),
        request.route.expected_output * request.route.choices);
  AdmissionDecision decision =
      cluster::admit(view_of(question), request, config_.qos, config_.routing, question.now, admission_);
  const QosClass& qos_class = config_.qos.classes.at(static_cast<size_t>(request.class_index));
  Admission answer;
  // The engine's least goes first.
  if (const int32_t urgency = urgency_of(decision, qos_class); urgency != 0)
    answer.engine_priority = -urgency;
  numbers_.count(decision, decision.qos_class);
  if (decision.verdict != Verdict::kAccept) answer.why = line_of(refused(question, request, decision));
  switch (decision.verdict) {
    case Verdict::kReject:
      answer.kind = Admission::Kind::kReject;
      answer.retry_after = Microseconds(static_cast<int64_t>(decision.retry_after_s * 1e6));
      answer.refusal = name_of(decision.reason);
      answer.over_quota = http_status(decision.reason) == 429;
      return answer;
    case Verdict::kOtherModel:
      answer.kind = Admission::Kind::kOtherModel;
      answer.other_model = degrade_model_of(qos_class, config_.qos);
      return answer;
    case Verdict::kDegrade: {
      answer.kind = Admission::Kind::kDegrade;
      const int64_t cap = decision.degradation.max_output;
      answer.max_tokens = cap > 0 ? cap : client.request.max_tokens;
      break;
    }
    case Verdict::kAccept:
      break;
  }
  std::string served_as = decision.qos_class;
  admitted_[client.uid] = {
      .tenant = client.tenant, .qos_class = std::move(served_as), .decision = std::move(decision)};
  return answer;
}

Placement PolicyRouting::route(const RouteQuestion& question) {
  if (!first_question_) first_question_ = question.now;
  const RouteRequest request = request_of(question);
  RouteMemory& memory = memory_[request.model];
  ClusterView view = view_of(question);
  RouteDecision decision = cluster::route(view, request, config_.routing, memory);
  Breaker& breaker = state_of(request.model, config_.qos, admission_).prefill_breaker;
  if (decision.prefill == PrefillMode::kRemote && !breaker.allow(question.now, config_.qos.prefill_breaker)) {
    view.prefill_breaker_open = true;  // half open, and enough have been let through to try
    decision = cluster::route(view, request, config_.routing, memory);
  }
  Placement placement{.decode = decision.decode,
      .second = decision.race,
      .prefill = decision.prefill == PrefillMode::kRemote ? PrefillPlace::kElsewhere : PrefillPlace::kHere,
      .prefill_hint = decision.prefill_worker,
      .fetch_from = decision.fetch_from,
      .fetch_tokens = decision.fetch_tokens,
      .effective_tokens = decision.effective_tokens,
      .worker_reason = std::string(name_of(decision.worker_reason)),
      .prefill_reason = std::string(name_of(decision.prefill_reason))};
  numbers_.count(decision);
  const auto admitted = admitted_.find(question.client.uid);
  RoutedRequest routed{.time_s = seconds(question.now - *first_question_),
      .key = request.key,
      .qos_class = admitted == admitted_.end() ? "" : admitted->second.qos_class,
      .prompt_tokens = request.prompt_tokens,
      .decision = decision};
  placement.why = line_of(routed);
  if (!decision.decode) return placement;
  prompt_tokens_.add(static_cast<double>(request.prompt_tokens), config_.qos.ema_alpha);
  since_report_.sent(*decision.decode, request, question.now);
  decisions_.add(std::move(routed));
  return placement;
}

void PolicyRouting::observe(const Outcome& outcome, Time now) {
  since_report_.ended(outcome.client.uid, now);
  const auto found = admitted_.find(outcome.client.uid);
  const int64_t choices = std::max(1, outcome.client.request.n);
  const int64_t each = outcome.generated / choices;
  ModelState& its = state_of(outcome.client.model, config_.qos, admission_);
  if (outcome.completed) its.decode_breaker.succeeded(now, config_.qos.decode_breaker);
  if (outcome.failed) its.decode_breaker.failed(now, config_.qos.decode_breaker);
  if (outcome.completed && outcome.prefill == PrefillPlace::kElsewhere)
    outcome.fell_back ? its.prefill_breaker.failed(now, config_.qos.prefill_breaker)
                      : its.prefill_breaker.succeeded(now, config_.qos.prefill_breaker);
  const double alpha = config_.qos.ema_alpha, ttft_ms = milliseconds(outcome.first_token);
  if (outcome.completed && each > 0) {
    its.estimates.output_tokens.add(static_cast<double>(each), alpha);
    const double tpot_ms =
        each > 1 ? milliseconds(outcome.total - outcome.first_token) / static_cast<double>(each - 1) : 0;
    const auto& classes = config_.qos.classes;
    const QosClass& qos_class = classes.at(static_cast<size_t>(class_index_of(outcome.client)));
    memory_[outcome.client.model].worth.observe(
        {.effective_tokens = outcome.effective_tokens,
            .way = outcome.prefill == PrefillPlace::kElsewhere ? Way::kDisaggregated : Way::kAggregated,
            .ttft_ms = ttft_ms,
            .tpot_ms = tpot_ms,
            .ttft_slo_ms = qos_class.ttft_slo_ms,
            .tpot_slo_ms = qos_class.tpot_slo_ms},
        config_.routing.worth);
  }
  if (found == admitted_.end()) return;
  // A request that moved took longer for reasons the prediction cannot know.
  if (outcome.completed && each > 0 && outcome.attempts == 1)
    first_token_came(found->second.decision, ttft_ms, config_.qos, admission_);
  const int64_t used = static_cast<int64_t>(outcome.client.request.prompt.size()) + outcome.generated;
  finish(found->second.tenant, found->second.decision, found->second.decision.quota_tokens - used,
      config_.qos, admission_);
  admitted_.erase(found);
}

std::optional<Plan> PolicyRouting::plan(
    const KnownWorkers& workers, int64_t queue_depth, Time now, const PlanOrders& orders) {
  const double tokens = static_cast<double>(queue_depth) * prompt_tokens_.value_or(0);
  KnownWorkers planned;
  for (const auto& [id, worker] : workers)
    if (is_planned_for(worker.descriptor.model)) planned.emplace(id, worker);
  const ModelState& its = state_of(models_.empty() ? "" : models_.front().model, config_.qos, admission_);
  const PlanQuestion question{.workers = planned,
      .queue_depth = queue_depth,
      .queue_tokens = static_cast<int64_t>(tokens),
      .orders = orders};
  std::optional<Plan> plan = planner_.plan(question, its.estimates, config_, now);
  if (!plan) return plan;
  numbers_.imbalance = plan->imbalance;
  // What an operator ordered stands until it is lifted. Of several routers one says what is desired.
  const auto desired = [&](const std::optional<int64_t>& ordered, const ScaleDecision& decision) {
    if (!orders.acts) return std::optional<int64_t>();
    return ordered || !config_.autoscale.enabled ? ordered : std::optional(decision.desired);
  };
  numbers_.desired_prefill = desired(orders.prefill, plan->prefill);
  numbers_.desired_decode = desired(orders.decode, plan->decode);
  numbers_.predicted_prefill_per_s = plan->predicted_prefill_per_s;
  numbers_.predicted_decode_per_s = plan->predicted_decode_per_s;
  numbers_.prefill_queue_depth = queue_depth;
  numbers_.prefill_breaker = its.prefill_breaker.state(now);
  numbers_.decode_breaker = its.decode_breaker.state(now);
  if (plan->flip) ++(plan->flip->to == Role::kPrefill ? numbers_.flips_to_prefill : numbers_.flips_to_decode);
  return plan;
}

void PolicyRouting::worker_ready(const WorkerDescriptor& worker) {
  for (auto& [model, its] : admission_.models) {
    if (!model.empty() && model != worker.model) continue;
    if (serves_decode(worker.role)) its.decode_breaker.worker_ready();
    if (serves_prefill(worker.role)) its.prefill_breaker.worker_ready();
  }
}

void PolicyRouting::forget(WorkerId worker) {
  kv_index_.remove(worker);
  for (auto& [model, memory] : memory_) memory.forget(worker);
  since_report_.forget(worker);
  learned_at_.erase(worker);
}

void PolicyRouting::learn(WorkerId from, const KvEvents& events) {
  std::vector<KvChange> changes;
  for (const CacheChange& change : events.changes)
    changes.push_back({.kind = static_cast<KvChange::Kind>(change.kind), .block = change.block});
  kv_index_.apply(from, events.first_number, changes);
  numbers_.kv_index_blocks = kv_index_.num_blocks();
  numbers_.kv_index_unsure = static_cast<int64_t>(kv_index_.unsure().size());
}

void PolicyRouting::learn(WorkerId from, const KvSnapshot& snapshot) {
  kv_index_.resync(from, snapshot.next_number, snapshot.blocks);
  numbers_.kv_index_blocks = kv_index_.num_blocks();
  numbers_.kv_index_unsure = static_cast<int64_t>(kv_index_.unsure().size());
}

void PolicyRouting::hear(const QuotaNews& news, Time now) {
  for (const QuotaNews::Entry& entry : news.entries) admission_.quotas.hear(entry, now, config_.qos);
}

std::string PolicyRouting::worth_text() const {
  std::string text;
  for (const auto& [model, memory] : memory_)
    for (int i = 0; i < kWorthBuckets; ++i) {
      const auto& ways = memory.worth.bucket(i).ways;
      if (ways[0].samples + ways[1].samples > 0) text += memory.worth.why(i) + "\n";
    }
  return text;
}

}  // namespace cheetah::cluster
