// Pages of a prompt from another worker: asked for, received, imported into the prefix cache. Whatever goes
// wrong ends in submit() with what has arrived. Receive memory is given back when nobody can write there any
// more, not before.
#include <algorithm>
#include <utility>

#include "cluster/core/worker_state.h"

namespace cheetah::cluster {

bool WorkerCore::State::may_prefill_elsewhere(const Generate& message) const {
  const auto prompt = static_cast<int64_t>(message.request.prompt.size());
  return message.prefill == PrefillPlace::kElsewhere && message.request.pooling == Pooling::kNone &&
         !message.request.prompt_logprobs && self.kv.page_tokens > 0 && prompt > config.min_remote_tokens &&
         now >= breaker_until && static_cast<int>(receivings.size()) < config.max_reservations &&
         prefill_peer(message.prefill_hint);
}

// A prefill worker we have a link to, the router's choice if it is one. Without any there is no use for a
// queue either: whoever takes a job has to ask us over a link whether it shall.
std::optional<WorkerId> WorkerCore::State::prefill_peer(WorkerId hint) const {
  std::optional<WorkerId> best;
  int64_t least = 0;
  for (const auto& [id, peer] : peers) {
    const Role role = peer.descriptor.role;
    if (!peer.linked || peer.descriptor.state != WorkerState::kReady || id == self.id) continue;
    if (role != Role::kPrefill && role != Role::kBoth) continue;
    const std::string& model = peer.descriptor.kv.model;
    if (!model.empty() && model != self.kv.model) continue;  // its pages are of no use here
    if (id == hint) return id;
    if (best && peer.load.prefill_tokens >= least) continue;
    best = id;
    least = peer.load.prefill_tokens;
  }
  return best;
}

void WorkerCore::State::on(const CacheLooked& input) {
  const auto found = servings.find(input.key);
  if (found == servings.end() || found->second->state != RequestState::kReceived) return;
  Serving& serving = *found->second;
  const int64_t page = self.kv.page_tokens;
  const auto prompt = static_cast<int64_t>(serving.generate.request.prompt.size());
  serving.first_token = std::clamp<int64_t>(input.cached_tokens, 0, prompt) / page * page;
  serving.end_token = (prompt - 1) / page * page;  // the last token gives the first logits: computed here
  serving.imported_to = serving.first_token;
  if (serving.end_token - serving.first_token < config.min_remote_tokens) return submit(serving);
  serving.state = RequestState::kWaitSpace;
  want(ReserveSpace{input.key, serving.first_token, serving.end_token, config.slab_tokens,
                    now + config.claim_wait + config.prefill_limit});
}

void WorkerCore::State::on(const SpaceReserved& input) {
  const auto found = servings.find(input.key);
  const bool waits = found != servings.end() && found->second->state == RequestState::kWaitSpace &&
                     !found->second->reservation;
  if (!waits) {
    if (input.reservation) want(FreeReservation{*input.reservation});
    return;
  }
  if (!input.reservation) return count(Counter::kNoSpace);  // until some is free, or the wait is over
  found->second->reservation = input.reservation;
  receivings[*input.reservation].owner = input.key;
  dispatch(*found->second, input.memory);
}

void WorkerCore::State::dispatch(Serving& serving, const std::string& memory) {
  const Generate& generate = serving.generate;
  const Time until =
      std::min(serving.deadline.value_or(Time::max()), now + config.claim_wait + config.prefill_limit);
  PrefillJob job{.key = generate.key,
                 .reply_to = self.id,
                 .tokens = generate.request.prompt,
                 .salt = generate.request.cache_salt,
                 .first_token = serving.first_token,
                 .end_token = serving.end_token,
                 .slab_tokens = config.slab_tokens,
                 .reservation = *serving.reservation,
                 .memory = memory,
                 .kv = config.wire.value_or(self.kv),
                 .priority = generate.request.priority,
                 .time_left = std::chrono::duration_cast<Microseconds>(std::max(until - now, Duration{})),
                 .trace = trace_of_answer(generate)};
  job.tokens.resize(static_cast<size_t>(serving.end_token));
  if (queue_up) {
    count(Counter::kJobsPushed);
    want(PushJob{std::move(job)});
  } else {
    const std::optional<WorkerId> peer = prefill_peer(generate.prefill_hint);
    if (!peer) return fall_back(serving, "there is neither a queue nor a prefill worker");
    count(Counter::kJobsDirect);
    say(*peer, std::move(job));
  }
  serving.state = RequestState::kQueuedRemote;
  serving_timers.set(generate.key, now + config.claim_wait);
}

void WorkerCore::State::on_message(WorkerId from, const Claimed& message) {
  const auto found = servings.find(message.key);
  bool accepted = false;
  if (found != servings.end() && found->second->reservation == message.reservation) {
    Serving& serving = *found->second;
    Receiving& receiving = receivings.at(message.reservation);
    const int64_t end = message.end_token > 0 ? message.end_token : serving.end_token;
    const bool fits = end >= serving.first_token && end <= serving.end_token &&
                      (end - serving.first_token) % self.kv.page_tokens == 0;
    if (serving.state == RequestState::kQueuedRemote && !receiving.stopped && fits) {
      receiving.writer = from;
      serving.end_token = end;
      serving.state = RequestState::kPrefilling;
      serving.claimed_at = now;
      serving.waterfall.queued = micros(now - serving.arrived);
      serving.waterfall.prefill_worker = from;
      wait_for_more(serving);
      count(Counter::kJobsClaimed);
    }
    accepted = receiving.writer == from && !receiving.stopped && !receiving.abandoned;
  }
  if (planted.accept_any_claim) accepted = true;
  if (!accepted) count(Counter::kJobsRefused);
  say(from, ClaimAnswer{message.key, message.reservation, accepted});
}

// The request that this writer may fill this reservation for, if it still waits.
Serving* WorkerCore::State::receiver(WorkerId from, RequestKey key, ReservationId reservation) {
  const auto found = servings.find(key);
  if (found == servings.end() || found->second->reservation != reservation) return nullptr;
  return receivings.at(reservation).writer == from ? found->second.get() : nullptr;
}

// Something of it has come about: as much time again for the next.
void WorkerCore::State::wait_for_more(Serving& serving) {
  serving.progressed_at = now;
  serving_timers.set(serving.generate.key, now + config.stall_limit);
}

// A large model takes its time, and so does one with other jobs before this; one that is stuck does not get
// it.
void WorkerCore::State::on_message(WorkerId from, const PrefillNews& message) {
  Serving* serving = receiver(from, message.key, message.reservation);
  if (serving == nullptr || serving->prefilled) return;
  const bool more = message.tokens_ready > serving->computed_to;
  serving->computed_to = std::max(serving->computed_to, message.tokens_ready);
  if (more) return wait_for_more(*serving);
  if (now - serving->progressed_at < config.progress_limit)
    serving_timers.set(message.key, now + config.stall_limit);
}

void WorkerCore::State::on_message(WorkerId from, const SlabPosted& message) {
  Serving* serving = receiver(from, message.key, message.reservation);
  if (serving == nullptr || message.index < serving->next_slab) return;
  const int64_t begins = serving->first_token + static_cast<int64_t>(message.index) * config.slab_tokens;
  const int64_t ends = std::min(serving->end_token, begins + config.slab_tokens);
  if (message.first_token != begins || message.first_token + message.num_tokens != ends)
    return fall_back(*serving, "its prefill worker sent other pages than it was asked for");
  serving->state = RequestState::kTransferring;
  wait_for_more(*serving);
  if (!serving->slabs.emplace(message.index, message).second) return;
  serving->waterfall.slabs.push_back({.first_token = message.first_token,
                                      .num_tokens = message.num_tokens,
                                      .posted = micros(now - message.spent - serving->arrived),
                                      .landed = micros(now - serving->arrived)});
  import_next(*serving);
}

void WorkerCore::State::import_next(Serving& serving) {
  const RequestKey key = serving.generate.key;
  Receiving& receiving = receivings.at(*serving.reservation);
  if (receiving.importing) return;
  const auto next = serving.slabs.find(serving.next_slab);
  if (next == serving.slabs.end()) {
    if (!serving.prefilled || serving.imported_to < serving.prefilled->end_token) return;
    remote_failures = 0;                                                      // all there
    std::ranges::sort(serving.waterfall.slabs, {}, &SlabTimes::first_token);  // small ones overtake
    serving.waterfall.remote_tokens = serving.imported_to - serving.first_token;
    serving.waterfall.prefill = serving.prefilled->prefill;
    serving.waterfall.transfer =
        std::max(Microseconds{}, micros(now - serving.arrived) - serving.waterfall.computed);
    abandon(serving);
    return submit(serving);
  }
  receiving.importing = true;
  const auto& prompt = serving.generate.request.prompt;
  const int64_t end = next->second.first_token + next->second.num_tokens;
  want(ImportSlab{.key = key,
                  .reservation = *serving.reservation,
                  .slab = next->second,
                  .tokens = {prompt.begin(), prompt.begin() + end},
                  .salt = serving.generate.request.cache_salt,
                  .end_token = serving.end_token});
}

void WorkerCore::State::on(const SlabImported& input) {
  const auto receiving = receivings.find(input.reservation);
  if (receiving == receivings.end()) return;
  receiving->second.importing = false;
  count(input.imported ? Counter::kSlabsImported : Counter::kSlabsRefused);
  const auto found = servings.find(input.key);
  const bool waits = found != servings.end() && found->second->reservation == input.reservation;
  if (input.imported) {  // pinned for the request: undone here if it has moved on
    if (found == servings.end() || found->second->state >= RequestState::kDecoding)
      want(Unpin{input.key});
    else
      found->second->pinned = true;
  }
  if (!waits) return settle(input.reservation);
  Serving& serving = *found->second;
  if (!input.imported) return fall_back(serving, "a slab was refused: " + input.why);
  const auto slab = serving.slabs.find(input.index);
  note_imported(serving, slab->second, input.landed);
  serving.imported_to = slab->second.first_token + slab->second.num_tokens;
  serving.slabs.erase(slab);
  serving.next_slab = input.index + 1;
  wait_for_more(serving);
  import_next(serving);
}

void WorkerCore::State::note_imported(Serving& serving, const SlabPosted& slab, Time landed) {
  auto& slabs = serving.waterfall.slabs;
  const auto times = std::ranges::find(slabs, slab.first_token, &SlabTimes::first_token);
  if (times == slabs.end()) return;
  times->imported = micros(now - serving.arrived);
  if (landed != Time{}) times->landed = micros(landed - serving.arrived);
}

void WorkerCore::State::on_message(WorkerId from, const PrefillDone& message) {
  const auto receiving = receivings.find(message.reservation);
  if (receiving == receivings.end() || receiving->second.writer != from) return;
  receiving->second.stopped = true;
  Serving* serving = receiver(from, message.key, message.reservation);
  if (serving == nullptr) return settle(message.reservation);
  serving->prefilled = message;
  serving->waterfall.computed = micros(now - message.since_computed - serving->arrived);
  serving->waterfall.slabs_hidden = std::min<int64_t>(message.slabs_hidden, message.num_slabs);
  serving->prefilled->end_token = std::min(message.end_token, serving->end_token);
  import_next(*serving);
}

void WorkerCore::State::on_message(WorkerId from, const PrefillFailed& message) {
  const auto receiving = receivings.find(message.reservation);
  if (receiving == receivings.end()) return;
  // One that was never allowed to write may say no, too: it was sent the job directly.
  if (receiving->second.writer != from && receiving->second.writer != WorkerId{}) return;
  receiving->second.stopped = receiving->second.writer == from;
  const auto found = servings.find(message.key);
  if (found != servings.end() && found->second->reservation == message.reservation)
    return fall_back(*found->second, "its prefill worker failed: " + message.why);
  settle(message.reservation);
}

void WorkerCore::State::on_message(WorkerId from, const WritesStopped& message) {
  std::vector<ReservationId> stopped;
  for (auto& [id, receiving] : receivings) {
    if (receiving.owner != message.key || receiving.writer != from) continue;
    receiving.stopped = true;
    stopped.push_back(id);
  }
  for (const ReservationId id : stopped) {
    const auto found = servings.find(message.key);
    if (found != servings.end() && found->second->reservation == id)
      fall_back(*found->second, "its prefill worker stopped");
    else
      settle(id);
  }
}

void WorkerCore::State::on(const ReservationFenced& input) {
  const auto receiving = receivings.find(input.reservation);
  if (receiving == receivings.end()) return;
  receiving->second.stopped = true;
  settle(input.reservation);
}

// The prompt is computed here, with what has arrived.
void WorkerCore::State::fall_back(Serving& serving, const std::string& why) {
  count(Counter::kFallbacks);
  log(serving.generate.key, "prefill here", why);
  if (serving.state != RequestState::kReceived && serving.state != RequestState::kWaitSpace) remote_failed();
  serving.waterfall.remote_tokens = serving.imported_to - serving.first_token;
  serving.waterfall.fallback = why;
  abandon(serving);
  submit(serving);
}

void WorkerCore::State::remote_failed() {
  if (++remote_failures < config.breaker_failures) return;
  remote_failures = 0;
  breaker_until = now + config.breaker_open;
  count(Counter::kBreakerOpened);
}

// The request no longer needs its reservation. Whoever may still write there is told to stop, and until it
// says so the memory is in quarantine.
void WorkerCore::State::abandon(Serving& serving) {
  if (!serving.reservation) return;
  const ReservationId id = *serving.reservation;
  serving.reservation.reset();
  serving.slabs.clear();
  Receiving& receiving = receivings.at(id);
  receiving.abandoned = true;
  if (receiving.writer == WorkerId{} || receiving.stopped) return settle(id);
  if (planted.free_instead_of_quarantine) {
    receivings.erase(id);
    return want(FreeReservation{id});
  }
  count(Counter::kQuarantined);
  want(Quarantine{id});
  if (!linked(receiving.writer)) return fence(id);
  say(receiving.writer, Cancel{receiving.owner});
  fence_timers.set(id, now + config.fence_after);
}

void WorkerCore::State::fence(ReservationId id) {
  const auto found = receivings.find(id);
  if (found == receivings.end() || found->second.stopped || found->second.fencing) return;
  found->second.fencing = true;
  want(FenceReservation{id, found->second.writer});
}

void WorkerCore::State::settle(ReservationId id) {
  const auto found = receivings.find(id);
  if (found == receivings.end()) return;
  const Receiving& receiving = found->second;
  const bool quiet = receiving.writer == WorkerId{} || receiving.stopped;
  if (!receiving.abandoned || receiving.importing || !quiet) return;
  fence_timers.clear(id);
  receivings.erase(found);
  want(FreeReservation{id});
  space_is_free();
}

// Those that wait for space ask again.
void WorkerCore::State::space_is_free() {
  for (const auto& [key, serving] : servings)
    if (serving->state == RequestState::kWaitSpace && !serving->reservation)
      return want(ReserveSpace{key, serving->first_token, serving->end_token, config.slab_tokens,
                               now + config.claim_wait + config.prefill_limit});
}

}  // namespace cheetah::cluster
