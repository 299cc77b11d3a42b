// From a worker to the client: each message of the present attempt once and in its order, and nothing else.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "cluster/core/router_state.h"

namespace cheetah::cluster {
namespace {

// More messages ahead of a missing one than any reordering explains.
constexpr size_t kMaxEarly = 256;

// The worker's trouble, not the request's: another may do better.
bool worker_failed(const GenerationEvent& event) {
  if (event.finish == FinishReason::kCancelled) return true;  // whoever cancelled it, it was not us
  return event.finish == FinishReason::kError &&
         (event.error_kind == ErrorKind::kDraining || event.error_kind == ErrorKind::kQueueFull ||
          event.error_kind == ErrorKind::kInternal);
}

}  // namespace

Leg* RouterCore::State::find_leg(WorkerId from, RequestKey key, Request** request) {
  const auto found = requests.find(key.uid);
  *request = found == requests.end() ? nullptr : found->second.get();
  if (*request == nullptr) return nullptr;
  for (Leg& leg : (*request)->legs)
    if (leg.attempt == key.attempt && leg.worker == from) return &leg;
  return nullptr;
}

void RouterCore::State::on_message(WorkerId from, Tokens& message) {
  Request* request = nullptr;
  Leg* leg = find_leg(from, message.key, &request);
  if (leg == nullptr && planted.no_fencing && request != nullptr && !request->legs.empty()) {
    forward(*request, request->legs.front(), message);
    return;
  }
  if (leg == nullptr) {
    count(Counter::kStaleDropped);
    if (!message.event.done) say(from, Cancel{message.key});
    return;
  }
  leg->heard = now;
  leg->probes = 0;
  if (planted.no_dedup) {
    leg->next_sequence = std::max(leg->next_sequence, message.sequence + 1);
    if (forward(*request, *leg, message)) schedule(*request);
    return;
  }
  if (message.sequence < leg->next_sequence || leg->early.count(message.sequence) > 0) {
    count(Counter::kDuplicatesDropped);
    return;
  }
  if (leg->early.empty()) leg->early_since = now;
  leg->early.emplace(message.sequence, std::move(message));
  const Attempt attempt = leg->attempt;
  if (forward_in_turn(*request, attempt)) schedule(*request);
}

bool RouterCore::State::forward_in_turn(Request& request, Attempt attempt) {
  while (true) {
    const auto leg = std::find_if(request.legs.begin(), request.legs.end(),
                                  [&](const Leg& one) { return one.attempt == attempt; });
    if (leg == request.legs.end()) return true;
    const auto next = leg->early.find(leg->next_sequence);
    if (next == leg->early.end()) {
      if (leg->early.size() <= kMaxEarly) return true;
      say(leg->worker, Cancel{{request.client.uid, attempt}});
      return lose_leg(request, attempt, true, "one of its messages is missing");
    }
    Tokens message = std::move(next->second);
    leg->early.erase(next);
    leg->early_since = now;
    leg->missing.reset();
    ++leg->next_sequence;
    if (!forward(request, *leg, message)) return false;
  }
}

bool RouterCore::State::fits(const Request& request, const Tokens& message) const {
  const GenerationEvent& event = message.event;
  if (static_cast<size_t>(event.choice) >= request.got.size()) return false;
  const ResumedChoice& choice = request.got[static_cast<size_t>(event.choice)];
  if (choice.finished) return false;
  if (!event.tokens.empty() && message.first_index != static_cast<int64_t>(choice.tokens.size()))
    return false;
  if (!event.done || event.finish == FinishReason::kError) return true;
  const auto open = std::count_if(request.got.begin(), request.got.end(),
                                  [](const ResumedChoice& one) { return !one.finished; });
  return open == 1 && event.finish.has_value();
}

// Returns false when the request has ended by it.
bool RouterCore::State::forward(Request& request, const Leg& leg, Tokens& message) {
  GenerationEvent& event = message.event;
  const Attempt attempt = leg.attempt;
  const Time sent = leg.sent;
  if (worker_failed(event))
    return lose_leg(request, attempt, event.error_kind != ErrorKind::kDraining, "it failed: " + event.error);
  const bool planted_bug = planted.no_dedup || planted.no_fencing;
  const bool again = static_cast<size_t>(event.choice) < request.got.size() &&
                     request.got[static_cast<size_t>(event.choice)].finished && !event.done;
  if (again && !planted_bug) {  // a request that cannot be resumed was run again
    count(Counter::kDuplicatesDropped);
    return true;
  }
  if (!planted_bug && !fits(request, message)) {
    say(leg.worker, Cancel{message.key});
    return lose_leg(request, attempt, true, "what it sent is out of step with what the client has");
  }
  if (request.legs.size() > 1 && (!event.tokens.empty() || event.finish)) {
    if (request.legs.front().attempt != attempt) count(Counter::kRacesWonBySecond);
    drop_legs(request, attempt);
  }

  ResumedChoice& choice = request.got[static_cast<size_t>(event.choice) % request.got.size()];
  for (const GeneratedToken& token : event.tokens) choice.tokens.push_back(token.id);
  if (!event.tokens.empty()) request.vain = 0;
  if (!request.first_token && (!event.tokens.empty() || event.finish)) request.first_token = now;
  if (std::exchange(request.prompt_logprobs_sent,
                    request.prompt_logprobs_sent || !event.prompt_logprobs.empty()))
    event.prompt_logprobs.clear();
  event.request = request.client.request.id;
  if (event.finish) {
    choice.finished = true;
    const Duration to_schedule = event.times.scheduled - event.times.arrived;
    event.times = {.arrived = request.arrived,
                   .scheduled = sent + to_schedule,
                   .first_token = request.first_token.value_or(now),
                   .finished = now};
  }
  const bool ended = std::all_of(request.got.begin(), request.got.end(),
                                 [](const ResumedChoice& one) { return one.finished; });
  if (ended && !event.done) {  // nothing more can come, whatever the worker thinks
    say(request.legs.front().worker, Cancel{message.key});
    event.done = true;
  }
  if (event.done) {
    const bool completed = event.finish != FinishReason::kError;
    finish(request, std::move(event), message.waterfall, completed);
    return false;
  }
  emit(request.client.uid, std::move(event));
  return true;
}

void RouterCore::State::on_message(WorkerId from, const GaveUp& message) {
  Request* request = nullptr;
  const Leg* leg = find_leg(from, message.key, &request);
  if (leg == nullptr) return count(Counter::kStaleDropped);
  const bool draining = message.reason == GiveUpReason::kDraining;
  if (draining) workers[from].descriptor.state = WorkerState::kDraining;  // until it says otherwise
  const bool failure = !draining && message.reason != GiveUpReason::kNotMyRole;
  lose_leg(*request, message.key.attempt, failure, "it gave up: " + message.why);
}

void RouterCore::State::on_message(WorkerId from, const ProbeAnswer& message) {
  Request* request = nullptr;
  Leg* leg = find_leg(from, message.key, &request);
  if (leg == nullptr) {
    say(from, Cancel{message.key});
    return count(Counter::kStaleDropped);
  }
  leg->heard = now;
  leg->probes = 0;
  if (message.next_sequence <= leg->next_sequence) {
    leg->missing.reset();
  } else if (leg->missing == leg->next_sequence) {  // said so before: it is not merely on its way
    say(from, Cancel{message.key});
    lose_leg(*request, message.key.attempt, true, "one of its messages was lost");
  } else {
    leg->missing = leg->next_sequence;
  }
}

}  // namespace cheetah::cluster
