// From a router to the engine and back.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "cluster/core/worker_state.h"

namespace cheetah::cluster {
// A request ends once: its newest attempt is remembered, so that what comes late or twice cannot start it
// again.
void WorkerCore::State::remember(RequestKey key) {
  const auto [entry, added] = ended.try_emplace(key.uid, key.attempt, now + config.remember);
  entry->second.first = std::max(entry->second.first, key.attempt);
  entry->second.second = now + config.remember;
  if (added) ended_order.emplace_back(now, key.uid);
  if (ended_order.size() < 256 || ended_order[ended_order.size() / 2].first + config.remember > now) return;
  std::vector<std::pair<Time, RequestUid>> kept;
  for (const auto& [since, uid] : ended_order) {
    const auto old = ended.find(uid);
    if (old->second.second > now)
      kept.emplace_back(since, uid);
    else
      ended.erase(old);
  }
  ended_order = std::move(kept);
}

bool WorkerCore::State::stale(RequestKey key) const {
  const auto known = ended.find(key.uid);
  return known != ended.end() && key.attempt <= known->second.first;
}

bool WorkerCore::State::takes(WorkerId from, const Generate& message) {
  if (stale(message.key)) {
    count(Counter::kDuplicatesDropped);
    return false;
  }
  remember(message.key);
  const auto refuse = [&](GiveUpReason reason, const char* why) {
    say(from, GaveUp{message.key, reason, why});
    return false;
  };
  if (self.state != WorkerState::kReady)
    return refuse(GiveUpReason::kDraining, "the worker takes nothing new");
  if (self.role != Role::kDecode && self.role != Role::kBoth)
    return refuse(GiveUpReason::kNotMyRole, "the worker does not decode");
  return true;
}

void WorkerCore::State::on_message(WorkerId from, Generate& message) {
  if (!takes(from, message)) return;
  const RequestKey key = message.key;
  std::vector<RequestKey> older;  // attempts of the same request: this one takes their place
  for (auto one = servings.lower_bound({key.uid, Attempt{0}}); one != servings.end() && one->first < key;
       ++one)
    older.push_back(one->first);
  for (const RequestKey old : older) stop_serving(old);

  auto owned = std::make_unique<Serving>();
  Serving& serving = *owned;
  serving.router = from;
  serving.arrived = now;
  if (message.time_left) serving.deadline = now + *message.time_left;
  serving.next_index.resize(static_cast<size_t>(std::max(message.request.n, message.request.best_of)), 0);
  for (size_t i = 0; i < std::min(message.resume.size(), serving.next_index.size()); ++i)
    serving.next_index[i] = static_cast<int64_t>(message.resume[i].tokens.size());
  serving.generate = std::move(message);
  servings.emplace(key, std::move(owned));
  if (!may_prefill_elsewhere(serving.generate)) return submit(serving);
  serving_timers.set(key, now + config.space_wait);
  want(LookUpCache{key, serving.generate.request.prompt, serving.generate.request.cache_salt});
}

void WorkerCore::State::submit(Serving& serving) {
  const RequestKey key = serving.generate.key;
  serving_timers.clear(key);
  if (serving.deadline) serving_timers.set(key, *serving.deadline + config.deadline_grace);
  serving.submitted = true;
  serving.state = RequestState::kReady;
  serving.submitted_at = now;
  EngineSubmit submit{
      .key = key, .request = std::move(serving.generate.request), .trace = serving.generate.trace};
  submit.grammar = std::move(serving.generate.grammar);
  submit.resume = std::move(serving.generate.resume);
  submit.request.deadline = serving.deadline;
  want(std::move(submit));
  pause_or_go_on(serving);
}

// From a router about a request, or from a decode worker about a job, which wants to hear that the writing
// has stopped also where the job is long forgotten.
void WorkerCore::State::on_message(WorkerId from, const Cancel& message) {
  const auto serving = servings.find(message.key);
  if (serving != servings.end() && serving->second->router == from) return stop_serving(message.key);
  const auto job = jobs.find(message.key);
  if (job != jobs.end() && job->second->job.reply_to == from)
    return stop_job(message.key, WritesStopped{message.key});
  remember(message.key);  // should its Generate come later than its Cancel
  say(from, WritesStopped{message.key});
}

void WorkerCore::State::on_message(WorkerId from, const Pause& message) {
  const auto serving = servings.find(message.key);
  if (serving == servings.end() || serving->second->router != from || serving->second->cancelled) return;
  serving->second->asked_to_pause = message.paused;
  pause_or_go_on(*serving->second);
}

// A router that does not keep up gets no more from its requests until it has: its link would be cut.
void WorkerCore::State::on(const PeerPressed& input) {
  peers[input.peer].pressed = input.pressed;
  for (const auto& [key, serving] : servings)
    if (serving->router == input.peer) pause_or_go_on(*serving);
}

void WorkerCore::State::pause_or_go_on(Serving& serving) {
  const auto peer = peers.find(serving.router);
  const bool wanted = serving.asked_to_pause || (peer != peers.end() && peer->second.pressed);
  if (!serving.submitted || serving.cancelled || std::exchange(serving.paused, wanted) == wanted) return;
  want(EnginePause{serving.generate.key, wanted});
}

void WorkerCore::State::on_message(WorkerId from, const Probe& message) {
  const auto serving = servings.find(message.key);
  if (serving == servings.end() || serving->second->cancelled)
    return say(from, GaveUp{message.key, GiveUpReason::kUnknown, "the worker does not have the request"});
  say(from, ProbeAnswer{message.key, serving->second->next_sequence});
}

void WorkerCore::State::on(EngineEvent& input) {
  const auto found = servings.find(input.key);
  if (found == servings.end()) return;
  Serving& serving = *found->second;
  GenerationEvent& event = input.event;
  const bool done = event.done;
  if (serving.pinned) {  // the engine has looked into the cache and holds the pages itself
    serving.pinned = false;
    if (!planted.keep_pins) want(Unpin{input.key});
  }
  if (!serving.cancelled) {
    if (!event.tokens.empty() && serving.state != RequestState::kDecoding) {
      serving.state = RequestState::kDecoding;
      serving.first_token_at = now;
    }
    Tokens tokens{.key = input.key, .sequence = serving.next_sequence++};
    const auto choice = static_cast<size_t>(event.choice);
    if (choice < serving.next_index.size()) {
      tokens.first_index = serving.next_index[choice];
      serving.next_index[choice] += static_cast<int64_t>(event.tokens.size());
    }
    if (done) close_waterfall(serving, event);
    if (done) tokens.waterfall = serving.waterfall;
    tokens.event = std::move(event);
    say(serving.router, std::move(tokens));
  }
  if (done) forget(input.key);
}

void WorkerCore::State::close_waterfall(Serving& serving, const GenerationEvent& event) {
  Waterfall& waterfall = serving.waterfall;
  const bool elsewhere = waterfall.remote_tokens > 0;
  if (serving.first_token_at == Time{}) serving.first_token_at = now;
  const Duration in_engine_queue = std::max(Duration{}, event.times.scheduled - event.times.arrived);
  waterfall.queued += micros(in_engine_queue);
  if (!elsewhere) waterfall.prefill = micros(serving.first_token_at - serving.submitted_at - in_engine_queue);
  waterfall.decode = micros(now - serving.first_token_at);
}

// Nobody waits for it any more. What the engine has ends with the engine's last word.
void WorkerCore::State::stop_serving(RequestKey key) {
  Serving& serving = *servings.at(key);
  if (serving.cancelled) return;
  if (serving.submitted) {
    serving.cancelled = true;
    return want(EngineCancel{key});
  }
  if (!planted.forget_reservation) abandon(serving);
  forget(key);
}

void WorkerCore::State::forget(RequestKey key) {
  const auto serving = servings.find(key);
  record_answer(*serving->second);
  if (serving->second->pinned) want(Unpin{key});
  serving_timers.clear(key);
  servings.erase(serving);
  remember(key);
}

void WorkerCore::State::give_up(RequestKey key, GiveUpReason reason, const std::string& why) {
  say(servings.at(key)->router, GaveUp{key, reason, why});
  stop_serving(key);
}

}  // namespace cheetah::cluster
