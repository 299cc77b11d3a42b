// From a client to a worker and, when that is lost, to another.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cluster/core/router_state.h"

namespace cheetah::cluster {
namespace {

// A worker that drains hands over without fault; this many times are enough for a rolling restart of any
// cluster.
constexpr int kMaxHandOvers = 64;
constexpr int kMaxFailures = 16;  // however many tokens came between them

Microseconds micros(Duration duration) {
  return std::chrono::duration_cast<Microseconds>(std::max(duration, Duration{}));
}

// Of one whose choices compete nothing goes out before the end, and an embedding has no tokens: run again
// from the start, which gives the same.
bool resumable(const GenerationRequest& request) {
  return request.best_of <= request.n && request.pooling == Pooling::kNone;
}

}  // namespace

void RouterCore::State::on(ClientRequest& input) {
  const RequestUid uid = input.uid;
  if (requests.count(uid) > 0) return;
  if (input.degraded_from.empty()) count(Counter::kRequests);  // otherwise it was counted when it came first
  auto owned = std::make_unique<Request>();
  Request& request = *owned;
  request.client = std::move(input);
  GenerationRequest& wanted = request.client.request;
  wanted.best_of = std::max(wanted.best_of, wanted.n);
  request.arrived = now;
  request.deadline = wanted.deadline;
  if (!request.deadline && config.default_time_limit) request.deadline = now + *config.default_time_limit;
  request.got.resize(static_cast<size_t>(std::max(1, wanted.n)));
  request.waiting_since = now;
  waiting.insert(uid);
  requests.emplace(uid, std::move(owned));
  schedule(request);
  if (!admit(request)) return;
  place(request);
}

void RouterCore::State::on(const ClientCancel& input) {
  const auto request = requests.find(input.uid);
  if (request == requests.end()) return;
  end_with(*request->second, FinishReason::kCancelled, ErrorKind::kNone, "");
}

void RouterCore::State::on(const ClientPause& input) {
  const auto request = requests.find(input.uid);
  if (request == requests.end()) return;
  request->second->paused = input.paused;
  for (const Leg& leg : request->second->legs) say(leg.worker, Pause{{input.uid, leg.attempt}, input.paused});
}

RouteQuestion RouterCore::State::question(const Request& request) const {
  int64_t generated = 0;
  for (const ResumedChoice& choice : request.got) generated += static_cast<int64_t>(choice.tokens.size());
  return {.client = request.client,
          .workers = workers,
          .self = config.prefer_self ? config.self : WorkerId{},
          .queue_depth = queue_depth,
          .lost = request.lost,
          .generated = generated,
          .now = now};
}

bool RouterCore::State::admit(Request& request) {
  const Admission admission = routing.admit(question(request));
  const RequestKey key{request.client.uid, Attempt{0}};
  GenerationRequest& wanted = request.client.request;
  if (admission.kind == Admission::Kind::kDegrade) {
    count(Counter::kDegraded);
    log(key, "degrade", admission.why);
    request.shortened = admission.max_tokens < wanted.max_tokens;
    wanted.max_tokens = std::min(wanted.max_tokens, admission.max_tokens);
    wanted.min_tokens = std::min(wanted.min_tokens, wanted.max_tokens);
  }
  wanted.priority = admission.engine_priority.value_or(wanted.priority);
  const bool admitted =
      admission.kind == Admission::Kind::kAccept || admission.kind == Admission::Kind::kDegrade;
  request.admitted = admitted;
  if (!admitted) turn_away(request, admission);  // which ends it
  return admitted;
}

// Nothing was done for it: the summary says when to come back, or for which other model.
void RouterCore::State::turn_away(Request& request, const Admission& admission) {
  const bool other_model = admission.kind == Admission::Kind::kOtherModel;
  count(other_model ? Counter::kOtherModel : Counter::kRejected);
  log({request.client.uid, Attempt{0}}, other_model ? "other model" : "reject", admission.why);
  GenerationEvent event;
  event.error = admission.over_quota ? "more tokens were asked for than the quota allows: try again later"
                                     : "the server is busy: try again later";
  event.error_kind = admission.over_quota ? ErrorKind::kQuota : ErrorKind::kQueueFull;
  event.finish = FinishReason::kError;
  event.done = true;
  request.placement.why = admission.why;
  finish(request, std::move(event), {}, false);
  Emit::Summary& summary = *std::get<Emit>(out->back()).summary;
  summary.retry_after = admission.retry_after;
  summary.refusal = admission.refusal;
  summary.other_model = admission.other_model;
}

void RouterCore::State::place(Request& request) {
  if (request.deadline && now >= *request.deadline) {
    count(Counter::kDeadlines);
    return end_with(request, FinishReason::kDeadline, ErrorKind::kNone, "");
  }
  Placement placement = routing.route(question(request));
  const RequestUid uid = request.client.uid;
  if (!placement.decode || workers.count(*placement.decode) == 0) {
    if (!request.waiting_since) request.waiting_since = now;
    waiting.insert(uid);
    return schedule(request);
  }
  request.waiting_since.reset();
  waiting.erase(uid);
  request.placement = std::move(placement);
  send(request, *request.placement.decode);
  if (request.placement.second && workers.count(*request.placement.second) > 0) {
    count(Counter::kRaces);
    send(request, *request.placement.second);
  }
  schedule(request);
}

void RouterCore::State::send(Request& request, WorkerId worker) {
  const RequestKey key{request.client.uid, Attempt{++request.attempts}};
  const Placement& placement = request.placement;
  Generate generate{.key = key,
                    .request = request.client.request,
                    .grammar = request.client.grammar,
                    .prefill = placement.prefill,
                    .prefill_hint = placement.prefill_hint.value_or(WorkerId{}),
                    .trace = request.client.trace};
  generate.request.deadline.reset();
  generate.request.grammar.reset();
  const bool any = std::any_of(request.got.begin(), request.got.end(), [](const ResumedChoice& choice) {
    return choice.finished || !choice.tokens.empty();
  });
  if (any && resumable(request.client.request)) generate.resume = request.got;
  if (request.deadline) generate.time_left = micros(*request.deadline - now);
  request.legs.push_back({.attempt = key.attempt, .worker = worker, .sent = now, .heard = now});
  account(request, worker, 1);
  count(placement.prefill == PrefillPlace::kElsewhere ? Counter::kRemotePrefills : Counter::kLocalPrefills);
  log(key, format("decode at {:016x}", static_cast<uint64_t>(worker)), placement.why);
  say(worker, std::move(generate));
  if (request.paused) say(worker, Pause{key, true});
}

void RouterCore::State::account(const Request& request, WorkerId worker, int sign) {
  const auto known = workers.find(worker);
  if (known == workers.end()) return;
  known->second.in_flight += sign * request.client.request.best_of;
  known->second.in_flight_tokens += sign * static_cast<int64_t>(request.client.request.prompt.size());
}

bool RouterCore::State::lose_leg(Request& request, Attempt attempt, bool failure, const std::string& why) {
  const auto leg = std::find_if(request.legs.begin(), request.legs.end(),
                                [&](const Leg& one) { return one.attempt == attempt; });
  CHEETAH_ASSERT(leg != request.legs.end(), "a leg that is lost was there");
  const RequestKey key{request.client.uid, attempt};
  log(key, format("lost at {:016x}", static_cast<uint64_t>(leg->worker)), why);
  account(request, leg->worker, -1);
  request.lost.push_back(leg->worker);
  request.legs.erase(leg);
  request.failures += failure ? 1 : 0;
  request.vain += failure ? 1 : 0;
  request.hand_overs += failure ? 0 : 1;
  if (!request.legs.empty()) return true;  // the other of a race goes on
  if (planted.no_resume) request.got.assign(request.got.size(), {});
  request.waiting_since = now;
  waiting.insert(request.client.uid);
  const RequestUid uid = key.uid;
  // One that kills its workers must not go through all of them.
  if (request.vain > config.max_migrations || request.failures > kMaxFailures ||
      request.hand_overs > kMaxHandOvers) {
    count(Counter::kMigrationLimit);
    end_unavailable(request, "the request was lost with its worker too many times");
  } else {
    count(Counter::kMigrations);
    place(request);
  }
  return requests.count(uid) > 0;
}

void RouterCore::State::drop_legs(Request& request, std::optional<Attempt> but) {
  std::vector<Leg> kept;
  for (Leg& leg : request.legs) {
    if (leg.attempt == but) {
      kept.push_back(std::move(leg));
      continue;
    }
    account(request, leg.worker, -1);
    say(leg.worker, Cancel{{request.client.uid, leg.attempt}});
  }
  request.legs = std::move(kept);
}

void RouterCore::State::place_waiting() {
  const std::vector<RequestUid> uids(waiting.begin(), waiting.end());
  for (const RequestUid uid : uids) {
    const auto request = requests.find(uid);
    if (request != requests.end() && request->second->legs.empty()) place(*request->second);
  }
}

void RouterCore::State::end_unavailable(Request& request, const std::string& why) {
  count(Counter::kUnavailable);
  end_with(request, FinishReason::kError, ErrorKind::kQueueFull, why);
}

// Ends every choice that has not ended.
void RouterCore::State::end_with(Request& request, FinishReason reason, ErrorKind kind,
                                 const std::string& why) {
  drop_legs(request);
  std::vector<int> open;
  for (size_t i = 0; i < request.got.size(); ++i)
    if (!request.got[i].finished) open.push_back(static_cast<int>(i));
  CHEETAH_ASSERT(!open.empty(), "a request that has not ended has a choice that has not");
  for (const int choice : open) {
    GenerationEvent event;
    event.choice = choice;
    event.error = why;
    event.error_kind = kind;
    event.request = request.client.request.id;
    event.finish = reason;
    event.prompt_tokens = static_cast<int64_t>(request.client.request.prompt.size());
    event.completion_tokens = static_cast<int64_t>(request.got[static_cast<size_t>(choice)].tokens.size());
    if (choice != open.back()) {
      emit(request.client.uid, std::move(event));
      continue;
    }
    event.done = true;
    return finish(request, std::move(event), {}, false);
  }
}

// The last event goes out and the request is gone.
void RouterCore::State::finish(Request& request, GenerationEvent event, const Waterfall& waterfall,
                               bool completed) {
  event.request = request.client.request.id;
  const WorkerId decoded_at = request.legs.empty() ? WorkerId{} : request.legs.front().worker;
  for (const Leg& leg : request.legs) account(request, leg.worker, -1);
  int64_t generated = 0;
  for (const ResumedChoice& choice : request.got) generated += static_cast<int64_t>(choice.tokens.size());
  const Microseconds first = micros(request.first_token.value_or(now) - request.arrived);
  const bool failed = event.finish == FinishReason::kError &&
                      (event.error_kind == ErrorKind::kQueueFull || event.error_kind == ErrorKind::kInternal);
  if (request.admitted)
    routing.observe({.client = request.client,
                     .decode = decoded_at,
                     .prefill = request.placement.prefill,
                     .effective_tokens = request.placement.effective_tokens,
                     .generated = generated,
                     .first_token = first,
                     .total = micros(now - request.arrived),
                     .attempts = request.attempts,
                     .completed = completed,
                     .failed = failed,
                     .fell_back = !waterfall.fallback.empty()},
                    now);
  Emit::Summary summary{.workers = waterfall,
                        .total = micros(now - request.arrived),
                        .first_token = first,
                        .attempts = request.attempts,
                        .decode_worker = decoded_at,
                        .decision = request.placement.why,
                        .worker_reason = request.placement.worker_reason,
                        .prefill_reason = request.placement.prefill_reason,
                        .degraded = !request.client.degraded_from.empty() ? "model"
                                    : request.shortened                   ? "output"
                                                                          : ""};
  const RequestUid uid = request.client.uid;
  emit(uid, std::move(event), std::move(summary));
  timers.erase({request.wake, uid});
  waiting.erase(uid);
  requests.erase(uid);
}

}  // namespace cheetah::cluster
