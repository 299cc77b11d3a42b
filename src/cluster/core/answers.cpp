// SPDX-License-Identifier: MIT
#include "cluster/core/answers.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cluster/core/worker_trace.h"

namespace cheetah::cluster {

bool Answers::takes(WorkerId from, const Generate& message, WorkerStep& step) {
  if (parts_.ended.stale(message.key)) {
    step.count(Counter::kDuplicatesDropped);
    return false;
  }
  parts_.ended.add(message.key, step.now);
  const auto refuse = [&](GiveUpReason reason, const char* why) {
    step.say(from, GaveUp{message.key, reason, why});
    return false;
  };
  if (!parts_.roles.ready()) return refuse(GiveUpReason::kDraining, "the worker takes nothing new");
  if (!parts_.roles.decodes()) return refuse(GiveUpReason::kNotMyRole, "the worker does not decode");
  return true;
}

// Its Generate follows on the same link; one whose Generate was lost with the link is pushed out by others.
void Answers::hear(const FetchFrom& message) {
  constexpr size_t kMostWaiting = 64;
  if (fetches_.size() >= kMostWaiting) fetches_.erase(fetches_.begin());
  fetches_[message.key] = message;
}

void Answers::hear(WorkerId from, Generate& message, WorkerStep& step) {
  auto fetch = fetches_.extract(message.key);
  if (!takes(from, message, step)) return;
  const RequestKey key = message.key;
  std::vector<RequestKey> older;  // attempts of the same request: this one takes their place
  for (auto one = parts_.servings.lower_bound({key.uid, Attempt{0}});
       one != parts_.servings.end() && one->first < key; ++one)
    older.push_back(one->first);
  for (const RequestKey old : older) stop(old, step);
  Serving& serving = add(from, message, step.now);
  step.say(from, ProbeAnswer{key, 0});  // it has arrived: what happens to this worker may be its doing
  if (fetch && parts_.pages.may_fetch(serving.generate, fetch.mapped())) serving.fetch = fetch.mapped();
  if (serving.fetch || parts_.pages.may_start(serving.generate, step.now))
    parts_.pages.start(serving, step);
  else
    submit(serving, step);
}

Serving& Answers::add(WorkerId from, Generate& message, Time now) {
  const RequestKey key = message.key;
  auto owned = std::make_unique<Serving>();
  Serving& serving = *owned;
  serving.router = from;
  serving.arrived = now;
  if (message.time_left) serving.deadline = now + *message.time_left;
  serving.next_index.resize(static_cast<size_t>(std::max(message.request.n, message.request.best_of)), 0);
  serving.said = {.recall = message.recall,
      .max_tokens = message.request.max_tokens,
      .min_tokens = message.request.min_tokens};
  if (!message.recall.empty()) serving.said.choices.resize(serving.next_index.size());
  for (size_t i = 0; i < std::min(message.resume.size(), serving.next_index.size()); ++i) {
    ResumedChoice& choice = message.resume[i];
    const auto all = static_cast<int64_t>(choice.tokens.size());
    serving.next_index[i] = i < message.told.size() ? std::min(message.told[i], all) : all;
    serving.said.begin(i, choice.tokens);
  }
  serving.generate = std::move(message);
  parts_.servings.emplace(key, std::move(owned));
  return serving;
}

void Answers::submit_ready(WorkerStep& step) {
  for (const RequestKey key : std::exchange(step.ready, {}))
    if (Serving* serving = find(parts_.servings, key)) submit(*serving, step);
}

void Answers::submit(Serving& serving, WorkerStep& step) {
  const RequestKey key = serving.generate.key;
  if (serving.deadline) deadlines_.set(key, *serving.deadline + parts_.config.deadline_grace);
  serving.submitted = true;
  serving.state = RequestState::kReady;
  serving.submitted_at = step.now;
  EngineSubmit submit{
      .key = key, .request = std::move(serving.generate.request), .trace = serving.generate.trace};
  submit.grammar = std::move(serving.generate.grammar);
  submit.resume = std::move(serving.generate.resume);
  submit.told = std::move(serving.generate.told);
  submit.request.deadline = serving.deadline;
  step.want(std::move(submit));
  pause_or_go_on(serving, step);
}

bool Answers::cancel(WorkerId from, RequestKey key, WorkerStep& step) {
  const Serving* serving = find(parts_.servings, key);
  if (serving == nullptr || serving->router != from) return false;
  stop(key, step);
  return true;
}

void Answers::hear(WorkerId from, const Pause& message, WorkerStep& step) {
  Serving* serving = find(parts_.servings, message.key);
  if (serving == nullptr || serving->router != from || serving->cancelled) return;
  serving->asked_to_pause = message.paused;
  pause_or_go_on(*serving, step);
}

void Answers::pressure_changed(WorkerId router, WorkerStep& step) {
  for (const auto& [key, serving] : parts_.servings)
    if (serving->router == router) pause_or_go_on(*serving, step);
}

void Answers::pause_or_go_on(Serving& serving, WorkerStep& step) const {
  const bool wanted = serving.asked_to_pause || parts_.peers.pressed(serving.router);
  if (!serving.submitted || serving.cancelled || std::exchange(serving.paused, wanted) == wanted) return;
  step.want(EnginePause{serving.generate.key, wanted});
}

void Answers::hear(WorkerId from, const Probe& message, WorkerStep& step) const {
  const Serving* serving = find(parts_.servings, message.key);
  if (serving == nullptr || serving->cancelled)
    return step.say(
        from, GaveUp{message.key, GiveUpReason::kUnknown, "the worker does not have the request"});
  step.say(from, ProbeAnswer{message.key, serving->next_sequence});
}

void Answers::hear(WorkerId from, const Recall& message, WorkerStep& step) const {
  const SaidTokens* said = remembered_.find(message.recall, step.now);
  for (const auto& [key, serving] : parts_.servings)  // its router may be slow, not dead
    if (!message.recall.empty() && serving->said.recall == message.recall &&
        (said == nullptr || serving->said.size() >= said->size()))
      said = &serving->said;
  if (said == nullptr) return step.say(from, Recalled{.uid = message.uid});
  step.say(from, Recalled{.uid = message.uid,
                     .known = true,
                     .max_tokens = said->max_tokens,
                     .min_tokens = said->min_tokens,
                     .choices = said->choices});
}

void Answers::on(EngineEvent& input, WorkerStep& step) {
  Serving* serving = find(parts_.servings, input.key);
  if (serving == nullptr) return;
  const bool done = input.event.done;
  // The engine has looked into the cache and holds the pages itself.
  if (std::exchange(serving->pinned, false)) step.want(Unpin{input.key});
  if (!serving->cancelled) send(*serving, input.event, step);
  if (done) forget(input.key, step);
}

void Answers::send(Serving& serving, GenerationEvent& event, WorkerStep& step) const {
  if (!event.tokens.empty() && serving.state != RequestState::kDecoding) {
    serving.state = RequestState::kDecoding;
    serving.first_token_at = step.now;
  }
  Tokens tokens{.key = serving.generate.key, .sequence = serving.next_sequence++};
  const auto choice = static_cast<size_t>(event.choice);
  if (choice < serving.next_index.size()) {
    tokens.first_index = serving.next_index[choice];
    serving.next_index[choice] += static_cast<int64_t>(event.tokens.size());
    serving.said.add(choice, tokens.first_index, event.tokens);
  }
  if (event.done) {
    close_waterfall(serving, event, step.now);
    tokens.waterfall = serving.waterfall;
  }
  tokens.event = std::move(event);
  step.say(serving.router, std::move(tokens));
}

void Answers::close_waterfall(Serving& serving, const GenerationEvent& event, Time now) {
  Waterfall& waterfall = serving.waterfall;
  const bool elsewhere = waterfall.remote_tokens > 0;
  if (serving.first_token_at == Time{}) serving.first_token_at = now;
  const Duration in_engine_queue = std::max(Duration{}, event.times.scheduled - event.times.arrived);
  waterfall.queued += micros(in_engine_queue);
  if (!elsewhere) waterfall.prefill = micros(serving.first_token_at - serving.submitted_at - in_engine_queue);
  waterfall.decode = micros(now - serving.first_token_at);
}

// No router waits for it any more. What the engine has ends with the engine's last word.
void Answers::stop(RequestKey key, WorkerStep& step) {
  Serving& serving = *parts_.servings.at(key);
  if (serving.cancelled) return;
  if (serving.submitted) {
    serving.cancelled = true;
    return step.want(EngineCancel{key});
  }
  parts_.pages.abandon(serving, step);
  forget(key, step);
}

void Answers::forget(RequestKey key, WorkerStep& step) {
  const auto serving = parts_.servings.find(key);
  record_answer(*serving->second, step);
  if (serving->second->pinned) step.want(Unpin{key});
  deadlines_.clear(key);
  remembered_.add(std::move(serving->second->said), step.now);
  parts_.pages.forget(key);
  parts_.servings.erase(serving);
  parts_.ended.add(key, step.now);
}

void Answers::peer_lost(WorkerId peer, WorkerStep& step) {
  std::vector<RequestKey> orphans;
  for (const auto& [key, serving] : parts_.servings)
    if (serving->router == peer) orphans.push_back(key);
  for (const RequestKey key : orphans) {
    step.count(Counter::kOrphansCancelled);
    stop(key, step);
  }
}

void Answers::hand_over(WorkerStep& step) {
  std::vector<RequestKey> keys;
  for (const auto& [key, serving] : parts_.servings)
    if (!serving->cancelled) keys.push_back(key);
  for (const RequestKey key : keys) {
    step.count(Counter::kHandedOver);
    step.say(parts_.servings.at(key)->router, GaveUp{key, GiveUpReason::kDraining, "the worker drains"});
    stop(key, step);
  }
}

// Long past its deadline: its router has stopped waiting, and the word got lost.
void Answers::run_timers(WorkerStep& step) {
  while (const auto key = deadlines_.take_due(step.now))
    if (parts_.servings.count(*key) > 0) stop(*key, step);
}

std::string Answers::describe() const {
  std::string text;
  for (const auto& [key, serving] : parts_.servings)
    text += format("request {:016x}.{} {} sent={}{}\n", static_cast<uint64_t>(key.uid),
        static_cast<uint32_t>(key.attempt), state_name(serving->state), serving->next_sequence,
        serving->cancelled ? " cancelled" : "");
  return text;
}

void Answers::check_invariants() const {
  for (const auto& [key, serving] : parts_.servings) {
    CHEETAH_ASSERT(
        serving->submitted || serving->state < RequestState::kReady, "the engine has what is ready");
    CHEETAH_ASSERT(serving->submitted || !serving->cancelled, "only the engine needs time to end a request");
  }
}

}  // namespace cheetah::cluster
