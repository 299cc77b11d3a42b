// SPDX-License-Identifier: MIT
// Every wait of a request has an end.
#include <algorithm>

#include "cluster/core/routed_requests.h"

namespace cheetah::cluster {

Duration RoutedRequests::patience(const Request& request) const {
  return request.attempts > 0 || request.client.has ? config_.resume_wait : config_.no_worker_wait;
}

Time RoutedRequests::wake_of(const Request& request, Time now) const {
  Time wake = Time::max();
  if (request.running.empty()) {
    wake = *request.waiting_since + patience(request);
    if (request.recall_until) wake = std::min(wake, *request.recall_until);
    if (may_place_at(request) > now) wake = std::min(wake, may_place_at(request));
    if (request.deadline) wake = std::min(wake, *request.deadline);
    return wake;
  }
  if (request.deadline) wake = *request.deadline + config_.deadline_grace;
  for (const RunningAttempt& run : request.running) {
    wake = std::min(wake, std::max(run.heard, run.probed) + config_.probe_after);
    if (!run.early.empty()) wake = std::min(wake, run.early_since + config_.probe_after);
  }
  return wake;
}

// A timer that comes too early costs one look; so one is moved only to an earlier time, and a token does not
// touch it.
void RoutedRequests::schedule(Request& request, Time now) {
  const Time wake = wake_of(request, now);
  if (wake >= request.wake) return;
  const RequestUid uid = request.client.uid;
  timers_.erase({request.wake, uid});
  timers_.insert({wake, uid});
  request.wake = wake;
}

void RoutedRequests::run_timers(RouterStep& step) {
  if (!began_) began_ = step.now;
  while (!timers_.empty() && timers_.begin()->first <= step.now) {
    const RequestUid uid = timers_.begin()->second;
    Request& request = *requests_.at(uid);
    timers_.erase(timers_.begin());
    request.wake = Time::max();
    run_timer(request, step);
    const auto left = requests_.find(uid);
    if (left != requests_.end()) schedule(*left->second, step.now);
  }
}

void RoutedRequests::run_timer(Request& request, RouterStep& step) {
  if (request.running.empty()) {
    if (request.deadline && step.now >= *request.deadline) {
      step.count(Counter::kDeadlines);
      return end_with(request, FinishReason::kDeadline, ErrorKind::kNone, "", step);
    }
    if (step.now - *request.waiting_since >= patience(request))
      return end_unavailable(request, "no worker can take the request now: try again later", step);
    if (request.recall_until && step.now >= *request.recall_until) return end_recall(request, step);
    return place(request, step);
  }
  if (request.deadline && step.now >= *request.deadline + config_.deadline_grace) {
    step.count(Counter::kDeadlines);
    return end_with(request, FinishReason::kDeadline, ErrorKind::kNone, "", step);
  }
  std::vector<Attempt> attempts;
  for (const RunningAttempt& run : request.running) attempts.push_back(run.attempt);
  for (const Attempt attempt : attempts) {
    const auto run = std::find_if(request.running.begin(), request.running.end(),
        [&](const RunningAttempt& one) { return one.attempt == attempt; });
    if (run != request.running.end() && !check_attempt(request, *run, step)) return;
  }
}

// Returns false when the request has ended by it.
bool RoutedRequests::check_attempt(Request& request, RunningAttempt& run, RouterStep& step) {
  const RequestKey key{request.client.uid, run.attempt};
  if (!run.early.empty() && step.now - run.early_since >= config_.probe_after) {
    step.say(run.worker, Cancel{key});
    return lose_attempt(request, run.attempt, Loss::kFailed, "one of its messages is missing", step);
  }
  if (step.now - std::max(run.heard, run.probed) < config_.probe_after) return true;
  if (run.probes >= config_.max_probes) {
    step.say(run.worker, Cancel{key});
    workers_.hold_off(run.worker, step.now);
    return lose_attempt(request, run.attempt, Loss::kFailed, "it does not answer", step);
  }
  ++run.probes;
  run.probed = step.now;
  step.count(Counter::kProbes);
  step.say(run.worker, Probe{key});
  return true;
}

}  // namespace cheetah::cluster
