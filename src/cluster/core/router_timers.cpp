// Every wait of a request has an end.
#include <algorithm>

#include "cluster/core/router_state.h"

namespace cheetah::cluster {

Duration RouterCore::State::patience(const Request& request) const {
  return request.attempts > 0 ? config.resume_wait : config.no_worker_wait;
}

Time RouterCore::State::wake_of(const Request& request) const {
  Time wake = Time::max();
  if (request.legs.empty()) {
    wake = *request.waiting_since + patience(request);
    if (request.deadline) wake = std::min(wake, *request.deadline);
    return wake;
  }
  if (request.deadline) wake = *request.deadline + config.deadline_grace;
  for (const Leg& leg : request.legs) {
    wake = std::min(wake, std::max(leg.heard, leg.probed) + config.probe_after);
    if (!leg.early.empty()) wake = std::min(wake, leg.early_since + config.probe_after);
  }
  return wake;
}

// A timer that comes too early costs one look; so one is moved only to an earlier time, and a token does not
// touch it.
void RouterCore::State::schedule(Request& request) {
  const Time wake = wake_of(request);
  if (wake >= request.wake) return;
  const RequestUid uid = request.client.uid;
  timers.erase({request.wake, uid});
  timers.insert({wake, uid});
  request.wake = wake;
}

void RouterCore::State::run_timers() {
  // Whoever slept through the heartbeats has not heard them: nobody is silent yet.
  if (now - last_look > config.heartbeat_limit / 2)
    for (auto& [id, worker] : workers)
      worker.heard_at = std::max(worker.heard_at, now - config.heartbeat_limit / 2);
  last_look = now;
  look_for_silent_workers();
  while (!timers.empty() && timers.begin()->first <= now) {
    const RequestUid uid = timers.begin()->second;
    Request& request = *requests.at(uid);
    timers.erase(timers.begin());
    request.wake = Time::max();
    run_timer(request);
    const auto left = requests.find(uid);
    if (left != requests.end()) schedule(*left->second);
  }
}

void RouterCore::State::run_timer(Request& request) {
  if (request.legs.empty()) {
    if (request.deadline && now >= *request.deadline) {
      count(Counter::kDeadlines);
      return end_with(request, FinishReason::kDeadline, ErrorKind::kNone, "");
    }
    if (now - *request.waiting_since >= patience(request))
      return end_unavailable(request, "no worker can take the request now: try again later");
    return;
  }
  if (request.deadline && now >= *request.deadline + config.deadline_grace) {
    count(Counter::kDeadlines);
    return end_with(request, FinishReason::kDeadline, ErrorKind::kNone, "");
  }
  std::vector<Attempt> attempts;
  for (const Leg& leg : request.legs) attempts.push_back(leg.attempt);
  for (const Attempt attempt : attempts) {
    const auto leg = std::find_if(request.legs.begin(), request.legs.end(),
                                  [&](const Leg& one) { return one.attempt == attempt; });
    if (leg != request.legs.end() && !check_leg(request, *leg)) return;
  }
}

// Returns false when the request has ended by it.
bool RouterCore::State::check_leg(Request& request, Leg& leg) {
  const RequestKey key{request.client.uid, leg.attempt};
  if (!leg.early.empty() && now - leg.early_since >= config.probe_after) {
    say(leg.worker, Cancel{key});
    return lose_leg(request, leg.attempt, true, "one of its messages is missing");
  }
  if (now - std::max(leg.heard, leg.probed) < config.probe_after) return true;
  if (leg.probes >= config.max_probes) {
    say(leg.worker, Cancel{key});
    workers[leg.worker].held_off_until = now + config.hold_off;
    return lose_leg(request, leg.attempt, true, "it does not answer");
  }
  ++leg.probes;
  leg.probed = now;
  count(Counter::kProbes);
  say(leg.worker, Probe{key});
  return true;
}

}  // namespace cheetah::cluster
