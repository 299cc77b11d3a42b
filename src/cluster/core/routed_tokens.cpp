// SPDX-License-Identifier: MIT
// From a worker to the client: each message of the present attempt once and in its order, and nothing else.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "cluster/core/routed_requests.h"

namespace cheetah::cluster {
namespace {

// More messages ahead of a missing one than any reordering explains.
constexpr size_t kMaxEarly = 256;

// The worker's trouble, not the request's: another may do better.
bool worker_failed(const GenerationEvent& event) {
  if (event.finish == FinishReason::kCancelled) return true;  // not by this router
  return event.finish == FinishReason::kError &&
         (event.error_kind == ErrorKind::kDraining || event.error_kind == ErrorKind::kQueueFull ||
             event.error_kind == ErrorKind::kInternal);
}

}  // namespace

RoutedRequests::Found RoutedRequests::find_attempt(WorkerId from, RequestKey key) {
  const auto found = requests_.find(key.uid);
  if (found == requests_.end()) return {};
  for (RunningAttempt& run : found->second->running)
    if (run.attempt == key.attempt && run.worker == from) return {found->second.get(), &run};
  return {found->second.get(), nullptr};
}

void RoutedRequests::hear(WorkerId from, Tokens& message, RouterStep& step) {
  const auto [request, run] = find_attempt(from, message.key);
  if (run == nullptr) {
    step.count(Counter::kStaleDropped);
    if (!message.event.done) step.say(from, Cancel{message.key});
    return;
  }
  run->heard = step.now;
  run->taken = true;
  run->probes = 0;
  if (message.sequence < run->next_sequence || run->early.count(message.sequence) > 0) {
    step.count(Counter::kDuplicatesDropped);
    return;
  }
  if (run->early.empty()) run->early_since = step.now;
  run->early.emplace(message.sequence, std::move(message));
  const Attempt attempt = run->attempt;
  if (forward_in_turn(*request, attempt, step)) schedule(*request, step.now);
}

bool RoutedRequests::forward_in_turn(Request& request, Attempt attempt, RouterStep& step) {
  while (true) {
    const auto run = std::find_if(request.running.begin(), request.running.end(),
        [&](const RunningAttempt& one) { return one.attempt == attempt; });
    if (run == request.running.end()) return true;
    const auto next = run->early.find(run->next_sequence);
    if (next == run->early.end()) {
      if (run->early.size() <= kMaxEarly) return true;
      step.say(run->worker, Cancel{{request.client.uid, attempt}});
      return lose_attempt(request, attempt, Loss::kFailed, "one of its messages is missing", step);
    }
    Tokens message = std::move(next->second);
    run->early.erase(next);
    run->early_since = step.now;
    run->missing.reset();
    ++run->next_sequence;
    if (!forward(request, *run, message, step)) return false;
  }
}

bool RoutedRequests::fits(const Request& request, const Tokens& message) {
  const GenerationEvent& event = message.event;
  if (static_cast<size_t>(event.choice) >= request.got.size()) return false;
  const ResumedChoice& choice = request.got[static_cast<size_t>(event.choice)];
  if (choice.finished) return false;
  if (!event.tokens.empty() && message.first_index != static_cast<int64_t>(choice.tokens.size()))
    return false;
  if (!event.done || event.finish == FinishReason::kError) return true;
  const auto open = std::count_if(
      request.got.begin(), request.got.end(), [](const ResumedChoice& one) { return !one.finished; });
  return open == 1 && event.finish.has_value();
}

// Returns false when the request has ended by it.
bool RoutedRequests::forward(Request& request, const RunningAttempt& run, Tokens& message, RouterStep& step) {
  GenerationEvent& event = message.event;
  const Attempt attempt = run.attempt;
  const Time sent = run.sent;
  if (worker_failed(event))
    return lose_attempt(request, attempt,
        event.error_kind == ErrorKind::kDraining ? Loss::kHandedOver : Loss::kFailed,
        "it failed: " + event.error, step);
  const bool again = static_cast<size_t>(event.choice) < request.got.size() &&
                     request.got[static_cast<size_t>(event.choice)].finished && !event.done;
  if (again) {  // a request that cannot be resumed was run again
    step.count(Counter::kDuplicatesDropped);
    return true;
  }
  if (!fits(request, message)) {
    step.say(run.worker, Cancel{message.key});
    return lose_attempt(
        request, attempt, Loss::kFailed, "what it sent is out of step with what the client has", step);
  }
  if (request.running.size() > 1 && (!event.tokens.empty() || event.finish)) {
    if (request.running.front().attempt != attempt) step.count(Counter::kRacesWonBySecond);
    drop_attempts(request, attempt, step);
  }

  ResumedChoice& choice = request.got[static_cast<size_t>(event.choice)];
  for (const GeneratedToken& token : event.tokens) choice.tokens.push_back(token.id);
  if (!event.tokens.empty()) choice.mirostat_mu = event.mirostat_mu;
  if (!event.tokens.empty()) request.vain = request.unlucky = 0;
  if (!request.first_token && (!event.tokens.empty() || event.finish)) request.first_token = step.now;
  if (std::exchange(
          request.prompt_logprobs_sent, request.prompt_logprobs_sent || !event.prompt_logprobs.empty()))
    event.prompt_logprobs.clear();
  event.request = request.client.request.id;
  if (event.finish) {
    choice.finished = true;
    const Duration to_schedule = event.times.scheduled - event.times.arrived;
    event.times = {.arrived = request.arrived,
        .scheduled = sent + to_schedule,
        .first_token = request.first_token.value_or(step.now),
        .finished = step.now};
  }
  const bool ended = std::all_of(
      request.got.begin(), request.got.end(), [](const ResumedChoice& one) { return one.finished; });
  if (ended && !event.done) {  // nothing more can come, whatever the worker thinks
    step.say(request.running.front().worker, Cancel{message.key});
    event.done = true;
  }
  if (event.done) {
    const bool completed = event.finish != FinishReason::kError;
    finish(request, std::move(event), message.waterfall, completed, step);
    return false;
  }
  step.emit(request.client.uid, std::move(event));
  return true;
}

void RoutedRequests::hear(WorkerId from, const GaveUp& message, RouterStep& step) {
  const auto [request, run] = find_attempt(from, message.key);
  if (run == nullptr) return step.count(Counter::kStaleDropped);
  const bool draining = message.reason == GiveUpReason::kDraining;
  if (draining) workers_.drains(from);
  const bool failure = !draining && message.reason != GiveUpReason::kNotMyRole;
  lose_attempt(*request, message.key.attempt, failure ? Loss::kFailed : Loss::kHandedOver,
      "it gave up: " + message.why, step);
}

void RoutedRequests::hear(WorkerId from, const ProbeAnswer& message, RouterStep& step) {
  const auto [request, run] = find_attempt(from, message.key);
  if (run == nullptr) {
    step.say(from, Cancel{message.key});
    return step.count(Counter::kStaleDropped);
  }
  run->heard = step.now;
  run->taken = true;
  run->probes = 0;
  if (message.next_sequence <= run->next_sequence) {
    run->missing.reset();
  } else if (run->missing == run->next_sequence) {  // said so before: it is not merely on its way
    step.say(from, Cancel{message.key});
    lose_attempt(*request, message.key.attempt, Loss::kFailed, "one of its messages was lost", step);
  } else {
    run->missing = run->next_sequence;
  }
}

}  // namespace cheetah::cluster
