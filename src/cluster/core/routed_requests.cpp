// SPDX-License-Identifier: MIT
// From a client to a worker and, when that is lost, to another.
#include "cluster/core/routed_requests.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster {
namespace {

// A worker that drains hands over without fault; this many times are enough for a rolling restart of any
// cluster.
constexpr int kMaxHandOvers = 64;
constexpr int kMaxFailures = 16;  // however many tokens came between them
constexpr Duration kFirstBackoff = std::chrono::milliseconds(10), kLongestBackoff = std::chrono::seconds(1);

// Where several workers are lost at once, the news of each takes a moment: the first loss costs no wait, and
// each further one twice as much as the one before.
Duration backoff(int unlucky) {
  if (unlucky < 2) return {};
  return std::min<Duration>(kLongestBackoff, kFirstBackoff * (1 << std::min(unlucky - 2, 10)));
}

}  // namespace

void RoutedRequests::add(ClientRequest& input, RouterStep& step) {
  const RequestUid uid = input.uid;
  if (requests_.count(uid) > 0) return;
  if (input.degraded_from.empty())
    step.count(Counter::kRequests);  // otherwise it was counted when it came first
  auto owned = std::make_unique<Request>();
  Request& request = *owned;
  request.client = std::move(input);
  GenerationRequest& wanted = request.client.request;
  wanted.best_of = std::max(wanted.best_of, wanted.n);
  request.arrived = step.now;
  request.deadline = wanted.deadline;
  if (!request.deadline && config_.default_time_limit)
    request.deadline = step.now + *config_.default_time_limit;
  request.got.resize(static_cast<size_t>(std::max(1, wanted.n)));
  request.waiting_since = step.now;
  waiting_.insert(uid);
  requests_.emplace(uid, std::move(owned));
  request.recalling = request.client.has.has_value();
  schedule(request, step.now);
  if (request.recalling) return ask_around(request, step);
  if (admit(request, step)) place(request, step);
}

void RoutedRequests::cancel(RequestUid uid, RouterStep& step) {
  const auto request = requests_.find(uid);
  if (request == requests_.end()) return;
  end_with(*request->second, FinishReason::kCancelled, ErrorKind::kNone, "", step);
}

void RoutedRequests::pause(const ClientPause& input, RouterStep& step) {
  const auto request = requests_.find(input.uid);
  if (request == requests_.end()) return;
  request->second->paused = input.paused;
  for (const RunningAttempt& run : request->second->running)
    step.say(run.worker, Pause{{input.uid, run.attempt}, input.paused});
}

RouteQuestion RoutedRequests::question(const Request& request, Time now) const {
  int64_t generated = 0;
  for (const ResumedChoice& choice : request.got) generated += static_cast<int64_t>(choice.tokens.size());
  return {.client = request.client,
      .workers = workers_.all(),
      .self = config_.prefer_self ? config_.self : WorkerId{},
      .queue_depth = queue_depth_,
      .lost = request.lost,
      .generated = generated,
      .now = now};
}

bool RoutedRequests::admit(Request& request, RouterStep& step) {
  const Admission admission = routing_.admit(question(request, step.now));
  const RequestKey key{request.client.uid, Attempt{0}};
  GenerationRequest& wanted = request.client.request;
  if (admission.kind == Admission::Kind::kDegrade && !request.client.has) {  // or its end would be another
    step.count(Counter::kDegraded);
    step.log(key, "degrade", admission.why);
    request.shortened = admission.max_tokens < wanted.max_tokens;
    wanted.max_tokens = std::min(wanted.max_tokens, admission.max_tokens);
    wanted.min_tokens = std::min(wanted.min_tokens, wanted.max_tokens);
  }
  wanted.priority = admission.engine_priority.value_or(wanted.priority);
  const bool admitted =
      admission.kind == Admission::Kind::kAccept || admission.kind == Admission::Kind::kDegrade;
  request.admitted = admitted;
  if (!admitted) turn_away(request, admission, step);  // which ends it
  return admitted;
}

// Nothing was done for it: the summary says when to come back, or for which other model.
void RoutedRequests::turn_away(Request& request, const Admission& admission, RouterStep& step) {
  const bool other_model = admission.kind == Admission::Kind::kOtherModel;
  step.count(other_model ? Counter::kOtherModel : Counter::kRejected);
  step.log({request.client.uid, Attempt{0}}, other_model ? "other model" : "reject", admission.why);
  GenerationEvent event;
  event.error = admission.over_quota ? "more tokens were asked for than the quota allows: try again later"
                                     : "the server is busy: try again later";
  event.error_kind = admission.over_quota ? ErrorKind::kQuota : ErrorKind::kQueueFull;
  event.finish = FinishReason::kError;
  event.done = true;
  request.placement.why = admission.why;
  request.refusal = admission;
  finish(request, std::move(event), {}, false, step);
}

void RoutedRequests::place(Request& request, RouterStep& step) {
  if (request.deadline && step.now >= *request.deadline) {
    step.count(Counter::kDeadlines);
    return end_with(request, FinishReason::kDeadline, ErrorKind::kNone, "", step);
  }
  if (request.recalling || step.now < may_place_at(request))
    return schedule(request, step.now);  // it waits already, as all that are placed do
  const auto remembered = where_remembered(request, workers_.all(), step.now);
  Placement placement = remembered ? *remembered : routing_.route(question(request, step.now));
  const RequestUid uid = request.client.uid;
  if (!placement.decode || !workers_.knows(*placement.decode)) return schedule(request, step.now);
  request.waiting_since.reset();
  waiting_.erase(uid);
  request.placement = std::move(placement);
  send(request, *request.placement.decode, step);
  if (request.placement.second && workers_.knows(*request.placement.second)) {
    step.count(Counter::kRaces);
    send(request, *request.placement.second, step);
  }
  schedule(request, step.now);
}

void RoutedRequests::send(Request& request, WorkerId worker, RouterStep& step) {
  const RequestKey key{request.client.uid, Attempt{++request.attempts}};
  const Placement& placement = request.placement;
  Generate generate{.key = key,
      .request = request.client.request,
      .grammar = request.client.grammar,
      .prefill = placement.prefill,
      .prefill_hint = placement.prefill_hint.value_or(WorkerId{}),
      .trace = request.client.trace,
      .recall = request.client.recall};
  generate.request.deadline.reset();
  generate.request.grammar.reset();
  add_resume(request, workers_.all(), worker, generate);
  if (request.deadline) generate.time_left = micros(*request.deadline - step.now);
  request.running.push_back({.attempt = key.attempt, .worker = worker, .sent = step.now, .heard = step.now});
  workers_.add_work(worker, request.client.request);
  step.count(
      placement.prefill == PrefillPlace::kElsewhere ? Counter::kRemotePrefills : Counter::kLocalPrefills);
  step.log(key, format("decode at {:016x}", static_cast<uint64_t>(worker)), placement.why);
  if (placement.fetch_from && *placement.fetch_from != worker && worker == placement.decode) {
    step.count(Counter::kPrefixFetches);
    step.say(worker, FetchFrom{key, *placement.fetch_from, placement.fetch_tokens});
  }
  step.say(worker, std::move(generate));
  if (request.paused) step.say(worker, Pause{key, true});
}

// A worker that is gone before it said that it had the request cannot have been killed by it: that is bad
// luck, and only a worker that had it counts against the limit.
bool RoutedRequests::lose_attempt(
    Request& request, Attempt attempt, Loss loss, const std::string& why, RouterStep& step) {
  const auto run = std::find_if(request.running.begin(), request.running.end(),
      [&](const RunningAttempt& one) { return one.attempt == attempt; });
  CHEETAH_ASSERT(run != request.running.end(), "an attempt that is lost was running");
  const RequestKey key{request.client.uid, attempt};
  step.log(key, format("lost at {:016x}", static_cast<uint64_t>(run->worker)), why);
  workers_.remove_work(run->worker, request.client.request);
  request.lost.push_back(run->worker);
  const bool unlucky = loss == Loss::kWorkerGone && !run->taken;
  request.running.erase(run);
  request.failures += loss == Loss::kHandedOver ? 0 : 1;
  request.hand_overs += loss == Loss::kHandedOver ? 1 : 0;
  request.vain += loss == Loss::kHandedOver || unlucky ? 0 : 1;
  request.unlucky = unlucky ? request.unlucky + 1 : 0;
  if (!request.running.empty()) return true;  // the other of a race goes on
  request.waiting_since = step.now;
  waiting_.insert(request.client.uid);
  const RequestUid uid = key.uid;
  // One that kills its workers must not go through all of them.
  if (request.vain > config_.max_migrations || request.failures > kMaxFailures ||
      request.hand_overs > kMaxHandOvers) {
    step.count(Counter::kMigrationLimit);
    request.given_up = true;
    end_unavailable(request, "the request was lost with its worker too many times", step);
  } else {
    step.count(Counter::kMigrations);
    request.place_after = step.now + backoff(request.unlucky);
    place(request, step);
  }
  return requests_.count(uid) > 0;
}

void RoutedRequests::drop_attempts(Request& request, std::optional<Attempt> but, RouterStep& step) {
  std::vector<RunningAttempt> kept;
  for (RunningAttempt& run : request.running) {
    if (run.attempt == but) {
      kept.push_back(std::move(run));
      continue;
    }
    workers_.remove_work(run.worker, request.client.request);
    step.say(run.worker, Cancel{{request.client.uid, run.attempt}});
  }
  request.running = std::move(kept);
}

void RoutedRequests::place_waiting(RouterStep& step) {
  const std::vector<RequestUid> uids(waiting_.begin(), waiting_.end());
  for (const RequestUid uid : uids) {
    const auto request = requests_.find(uid);
    if (request == requests_.end() || !request->second->running.empty()) continue;
    if (request->second->recalling)
      ask_around(*request->second, step);
    else
      place(*request->second, step);
  }
}

// Its requests go on elsewhere.
void RoutedRequests::worker_lost(WorkerId id, const std::string& why, RouterStep& step) {
  std::vector<std::pair<RequestUid, Attempt>> lost;
  for (const auto& [uid, request] : requests_)
    for (const RunningAttempt& run : request->running)
      if (run.worker == id) lost.emplace_back(uid, run.attempt);
  for (const auto& [uid, attempt] : lost) {
    const auto request = requests_.find(uid);
    if (request == requests_.end()) continue;
    if (workers_.linked(id)) step.say(id, Cancel{{uid, attempt}});  // should it come back to life
    lose_attempt(*request->second, attempt, Loss::kWorkerGone, why, step);
  }
}

void RoutedRequests::end_unavailable(Request& request, const std::string& why, RouterStep& step) {
  step.count(Counter::kUnavailable);
  end_with(request, FinishReason::kError, ErrorKind::kQueueFull, why, step);
}

// Ends every choice that has not ended.
void RoutedRequests::end_with(
    Request& request, FinishReason reason, ErrorKind kind, const std::string& why, RouterStep& step) {
  drop_attempts(request, {}, step);
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
      step.emit(request.client.uid, std::move(event));
      continue;
    }
    event.done = true;
    return finish(request, std::move(event), {}, false, step);
  }
}

// The last event goes out and the request is gone.
void RoutedRequests::finish(
    Request& request, GenerationEvent event, const Waterfall& waterfall, bool completed, RouterStep& step) {
  event.request = request.client.request.id;
  for (const RunningAttempt& run : request.running) workers_.remove_work(run.worker, request.client.request);
  Emit::Summary summary{.workers = waterfall,
      .total = micros(step.now - request.arrived),
      .first_token = micros(request.first_token.value_or(step.now) - request.arrived),
      .attempts = request.attempts,
      .decode_worker = request.running.empty() ? WorkerId{} : request.running.front().worker,
      .decision = request.placement.why,
      .worker_reason = request.placement.worker_reason,
      .prefill_reason = request.placement.prefill_reason,
      .degraded = !request.client.degraded_from.empty() ? "model"
                  : request.shortened                   ? "output"
                                                        : ""};
  if (request.refusal) {
    summary.retry_after = request.refusal->retry_after;
    summary.refusal = request.refusal->refusal;
    summary.other_model = request.refusal->other_model;
  }
  if (request.admitted) observe(request, summary, completed, step.now);
  const RequestUid uid = request.client.uid;
  step.emit(uid, std::move(event), std::move(summary));
  timers_.erase({request.wake, uid});
  waiting_.erase(uid);
  requests_.erase(uid);
}

void RoutedRequests::observe(const Request& request, const Emit::Summary& summary, bool completed, Time now) {
  int64_t generated = 0;
  for (const ResumedChoice& choice : request.got) generated += static_cast<int64_t>(choice.tokens.size());
  routing_.observe({.client = request.client,
                       .decode = summary.decode_worker,
                       .prefill = request.placement.prefill,
                       .effective_tokens = request.placement.effective_tokens,
                       .generated = generated,
                       .first_token = summary.first_token,
                       .total = summary.total,
                       .attempts = request.attempts,
                       .completed = completed,
                       .failed = request.given_up,
                       .fell_back = !summary.workers.fallback.empty()},
      now);
}

std::string RoutedRequests::describe() const {
  std::string text;
  for (const auto& [uid, request] : requests_) {
    text += format("request {:016x} attempts={} failures={}", static_cast<uint64_t>(uid), request->attempts,
        request->failures);
    for (const RunningAttempt& run : request->running)
      text += format(" attempt {}@{:016x} next={} early={}", static_cast<uint32_t>(run.attempt),
          static_cast<uint64_t>(run.worker), run.next_sequence, run.early.size());
    for (const ResumedChoice& choice : request->got)
      text += format(" {}{}", choice.tokens.size(), choice.finished ? "." : "");
    text += '\n';
  }
  return text;
}

void RoutedRequests::check_invariants() const {
  std::map<WorkerId, int64_t> in_flight;
  for (const auto& [uid, request] : requests_) {
    const bool waits = waiting_.count(uid) > 0;
    CHEETAH_ASSERT(waits == request->running.empty(), "a request is with a worker or waits for one");
    CHEETAH_ASSERT(waits == request->waiting_since.has_value(), "one that waits knows since when");
    CHEETAH_ASSERT(request->running.size() <= 2, "at most two race");
    CHEETAH_ASSERT(timers_.count({request->wake, uid}) == 1, "every request has a timer");
    for (const RunningAttempt& run : request->running)
      in_flight[run.worker] += request->client.request.best_of;
  }
  CHEETAH_ASSERT(timers_.size() == requests_.size(), "no timer without a request");
  for (const auto& [id, worker] : workers_.all())
    CHEETAH_ASSERT(worker.in_flight == in_flight[id], "what is in flight at a worker is counted");
}

}  // namespace cheetah::cluster
