// SPDX-License-Identifier: MIT
#include "cluster/core/page_receiver.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "cluster/core/worker_trace.h"

namespace cheetah::cluster {

bool PageReceiver::may_start(const Generate& message, Time now) const {
  const auto prompt = static_cast<int64_t>(message.request.prompt.size());
  return message.prefill == PrefillPlace::kElsewhere && message.request.pooling == Pooling::kNone &&
         !message.request.prompt_logprobs && self_.kv.page_tokens > 0 && prompt > config_.min_remote_tokens &&
         now >= breaker_until_ && num_reservations() < config_.max_reservations &&
         peers_.prefill_worker(self_.kv.model, message.prefill_hint);
}

bool PageReceiver::may_fetch(const Generate& message, const FetchFrom& fetch) const {
  return message.request.pooling == Pooling::kNone && !message.request.prompt_logprobs &&
         self_.kv.page_tokens > 0 && fetch.tokens > 0 && fetch.from != self_.id &&
         peers_.linked(fetch.from) && num_reservations() < config_.max_reservations;
}

void PageReceiver::start(Serving& serving, WorkerStep& step) {
  const Generate& generate = serving.generate;
  waits_.set(generate.key, step.now + config_.space_wait);
  step.want(LookUpCache{generate.key, generate.request.prompt, generate.request.cache_salt});
}

void PageReceiver::on(const CacheLooked& input, WorkerStep& step) {
  Serving* serving = find(servings_, input.key);
  if (serving == nullptr || serving->state != RequestState::kReceived) return;
  const int64_t page = self_.kv.page_tokens;
  const auto tokens = static_cast<int64_t>(serving->generate.request.prompt.size());
  RemotePrompt& prompt = serving->prompt;
  prompt.first_token = std::clamp<int64_t>(input.cached_tokens, 0, tokens) / page * page;
  prompt.end_token = (tokens - 1) / page * page;  // the last token gives the first logits: computed here
  if (serving->fetch) prompt.end_token = std::min(prompt.end_token, serving->fetch->tokens / page * page);
  prompt.imported_to = prompt.first_token;
  if (prompt.end_token - prompt.first_token < config_.min_remote_tokens) return ready(*serving, step);
  serving->state = RequestState::kWaitSpace;
  ask_for_space(*serving, step);
}

void PageReceiver::ask_for_space(const Serving& serving, WorkerStep& step) const {
  step.want(ReserveSpace{serving.generate.key, serving.prompt.first_token, serving.prompt.end_token,
      config_.slab_tokens, step.now + config_.claim_wait + config_.prefill_limit});
}

void PageReceiver::on(const SpaceReserved& input, WorkerStep& step) {
  Serving* serving = find(servings_, input.key);
  const bool waits =
      serving != nullptr && serving->state == RequestState::kWaitSpace && !serving->prompt.reservation;
  if (!waits) {
    if (input.reservation) step.want(FreeReservation{*input.reservation});
    return;
  }
  if (!input.reservation) return step.count(Counter::kNoSpace);  // until some is free, or the wait is over
  serving->prompt.reservation = input.reservation;
  memory_[*input.reservation].owner = input.key;
  dispatch(*serving, input.memory, step);
}

void PageReceiver::dispatch(Serving& serving, const std::string& memory, WorkerStep& step) {
  const Generate& generate = serving.generate;
  const Time until =
      std::min(serving.deadline.value_or(Time::max()), step.now + config_.claim_wait + config_.prefill_limit);
  PrefillJob job{.key = generate.key,
      .reply_to = self_.id,
      .tokens = generate.request.prompt,
      .salt = generate.request.cache_salt,
      .first_token = serving.prompt.first_token,
      .end_token = serving.prompt.end_token,
      .slab_tokens = config_.slab_tokens,
      .reservation = *serving.prompt.reservation,
      .memory = memory,
      .kv = config_.wire.value_or(self_.kv),
      .priority = generate.request.priority,
      .time_left = micros(until - step.now),
      .trace = trace_of_answer(generate)};
  job.tokens.resize(static_cast<size_t>(serving.prompt.end_token));
  if (serving.fetch) {
    step.say(serving.fetch->from, FetchJob{std::move(job)});
  } else if (queue_up_) {
    step.count(Counter::kJobsPushed);
    step.want(PushJob{std::move(job)});
  } else {
    const auto peer = peers_.prefill_worker(self_.kv.model, generate.prefill_hint);
    if (!peer) return fall_back(serving, "there is neither a queue nor a prefill worker", step);
    step.count(Counter::kJobsDirect);
    step.say(*peer, std::move(job));
  }
  serving.state = RequestState::kQueuedRemote;
  waits_.set(generate.key, step.now + config_.claim_wait);
}

void PageReceiver::hear(WorkerId from, const Claimed& message, WorkerStep& step) {
  Serving* serving = find(servings_, message.key);
  const bool accepted = serving != nullptr && serving->prompt.reservation == message.reservation &&
                        accept_claim(from, message, *serving, step);
  if (!accepted) step.count(Counter::kJobsRefused);
  step.say(from, ClaimAnswer{message.key, message.reservation, accepted});
}

bool PageReceiver::accept_claim(WorkerId from, const Claimed& message, Serving& serving, WorkerStep& step) {
  RemotePrompt& prompt = serving.prompt;
  ReceiveMemory& memory = memory_.at(message.reservation);
  const int64_t end = message.end_token > 0 ? message.end_token : prompt.end_token;
  const bool fits = end >= prompt.first_token && end <= prompt.end_token &&
                    (end - prompt.first_token) % self_.kv.page_tokens == 0;
  if (serving.state == RequestState::kQueuedRemote && !memory.stopped && fits) {
    memory.writer = from;
    prompt.end_token = end;
    serving.state = RequestState::kPrefilling;
    serving.claimed_at = step.now;
    serving.waterfall.queued = micros(step.now - serving.arrived);
    serving.waterfall.prefill_worker = from;
    wait_for_more(serving, step.now);
    step.count(Counter::kJobsClaimed);
  }
  return memory.writer == from && !memory.stopped && !memory.abandoned;
}

// The request that this writer may fill this memory for, if it still waits.
Serving* PageReceiver::waiting_for(WorkerId writer, RequestKey key, ReservationId reservation) {
  Serving* serving = find(servings_, key);
  if (serving == nullptr || serving->prompt.reservation != reservation) return nullptr;
  return memory_.at(reservation).writer == writer ? serving : nullptr;
}

// There was progress: as much time again for more.
void PageReceiver::wait_for_more(Serving& serving, Time now) {
  serving.prompt.progressed_at = now;
  waits_.set(serving.generate.key, now + config_.stall_limit);
}

// A large model takes its time, and so does one with other jobs before this; one that is stuck does not get
// it.
void PageReceiver::hear(WorkerId from, const PrefillNews& message, WorkerStep& step) {
  Serving* serving = waiting_for(from, message.key, message.reservation);
  if (serving == nullptr || serving->prompt.done) return;
  RemotePrompt& prompt = serving->prompt;
  const bool more = message.tokens_ready > prompt.computed_to;
  prompt.computed_to = std::max(prompt.computed_to, message.tokens_ready);
  if (more) return wait_for_more(*serving, step.now);
  if (step.now - prompt.progressed_at < config_.progress_limit)
    waits_.set(message.key, step.now + config_.stall_limit);
}

void PageReceiver::hear(WorkerId from, const SlabPosted& message, WorkerStep& step) {
  Serving* serving = waiting_for(from, message.key, message.reservation);
  if (serving == nullptr || message.index < serving->prompt.next_slab) return;
  const int64_t begins =
      serving->prompt.first_token + static_cast<int64_t>(message.index) * config_.slab_tokens;
  const int64_t ends = std::min(serving->prompt.end_token, begins + config_.slab_tokens);
  if (message.first_token != begins || message.first_token + message.num_tokens != ends)
    return fall_back(*serving, "its prefill worker sent other pages than it was asked for", step);
  serving->state = RequestState::kTransferring;
  wait_for_more(*serving, step.now);
  if (!serving->prompt.slabs.emplace(message.index, message).second) return;
  serving->waterfall.slabs.push_back({.first_token = message.first_token,
      .num_tokens = message.num_tokens,
      .posted = micros(step.now - message.spent - serving->arrived),
      .landed = micros(step.now - serving->arrived)});
  import_next(*serving, step);
}

void PageReceiver::import_next(Serving& serving, WorkerStep& step) {
  const RemotePrompt& prompt = serving.prompt;
  ReceiveMemory& memory = memory_.at(*prompt.reservation);
  if (memory.importing) return;
  const auto next = prompt.slabs.find(prompt.next_slab);
  if (next == prompt.slabs.end()) {
    if (prompt.done && prompt.imported_to >= prompt.done->end_token) all_imported(serving, step);
    return;
  }
  memory.importing = true;
  const auto& tokens = serving.generate.request.prompt;
  const int64_t end = next->second.first_token + next->second.num_tokens;
  step.want(ImportSlab{.key = serving.generate.key,
      .reservation = *prompt.reservation,
      .slab = next->second,
      .tokens = {tokens.begin(), tokens.begin() + end},
      .salt = serving.generate.request.cache_salt,
      .end_token = prompt.end_token});
}

void PageReceiver::all_imported(Serving& serving, WorkerStep& step) {
  remote_failures_ = 0;
  Waterfall& waterfall = serving.waterfall;
  std::ranges::sort(waterfall.slabs, {}, &SlabTimes::first_token);  // small ones overtake
  waterfall.remote_tokens = serving.prompt.imported_to - serving.prompt.first_token;
  waterfall.prefill = serving.prompt.done->prefill;
  waterfall.transfer = std::max(Microseconds{}, micros(step.now - serving.arrived) - waterfall.computed);
  abandon(serving, step);
  ready(serving, step);
}

void PageReceiver::on(const SlabImported& input, WorkerStep& step) {
  const auto memory = memory_.find(input.reservation);
  if (memory == memory_.end()) return;
  memory->second.importing = false;
  step.count(input.imported ? Counter::kSlabsImported : Counter::kSlabsRefused);
  Serving* serving = find(servings_, input.key);
  if (input.imported) {  // pinned for the request: undone here if it has moved on
    if (serving == nullptr || serving->state >= RequestState::kDecoding)
      step.want(Unpin{input.key});
    else
      serving->pinned = true;
  }
  if (serving == nullptr || serving->prompt.reservation != input.reservation)
    return settle(input.reservation, step);
  if (!input.imported) return fall_back(*serving, "a slab was refused: " + input.why, step);
  RemotePrompt& prompt = serving->prompt;
  const auto slab = prompt.slabs.find(input.index);
  auto& slabs = serving->waterfall.slabs;
  const auto times = std::ranges::find(slabs, slab->second.first_token, &SlabTimes::first_token);
  if (times != slabs.end()) times->imported = micros(step.now - serving->arrived);
  if (times != slabs.end() && input.landed != Time{}) times->landed = micros(input.landed - serving->arrived);
  prompt.imported_to = slab->second.first_token + slab->second.num_tokens;
  prompt.slabs.erase(slab);
  prompt.next_slab = input.index + 1;
  wait_for_more(*serving, step.now);
  import_next(*serving, step);
}

void PageReceiver::hear(WorkerId from, const PrefillDone& message, WorkerStep& step) {
  const auto memory = memory_.find(message.reservation);
  if (memory == memory_.end() || memory->second.writer != from) return;
  memory->second.stopped = true;
  Serving* serving = waiting_for(from, message.key, message.reservation);
  if (serving == nullptr) return settle(message.reservation, step);
  serving->prompt.done = message;
  serving->prompt.done->end_token = std::min(message.end_token, serving->prompt.end_token);
  serving->waterfall.computed = micros(step.now - message.since_computed - serving->arrived);
  serving->waterfall.slabs_hidden = std::min<int64_t>(message.slabs_hidden, message.num_slabs);
  import_next(*serving, step);
}

void PageReceiver::hear(WorkerId from, const PrefillFailed& message, WorkerStep& step) {
  const auto memory = memory_.find(message.reservation);
  if (memory == memory_.end()) return;
  // One that was never allowed to write may say no, too: it was sent the job directly.
  if (memory->second.writer != from && memory->second.writer != WorkerId{}) return;
  memory->second.stopped = memory->second.writer == from;
  Serving* serving = find(servings_, message.key);
  if (serving != nullptr && serving->prompt.reservation == message.reservation)
    return fall_back(*serving, "its prefill worker failed: " + message.why, step);
  settle(message.reservation, step);
}

void PageReceiver::hear(WorkerId from, const WritesStopped& message, WorkerStep& step) {
  std::vector<ReservationId> stopped;
  for (auto& [id, memory] : memory_) {
    if (memory.owner != message.key || memory.writer != from) continue;
    memory.stopped = true;
    stopped.push_back(id);
  }
  for (const ReservationId id : stopped) {
    Serving* serving = find(servings_, message.key);
    if (serving != nullptr && serving->prompt.reservation == id)
      fall_back(*serving, "its prefill worker stopped", step);
    else
      settle(id, step);
  }
}

// A prefill worker that is gone writes no more pages, once its endpoint is closed.
void PageReceiver::peer_lost(WorkerId peer, WorkerStep& step) {
  const bool nobody_left = !peers_.prefill_worker(self_.kv.model, WorkerId{});
  std::vector<Serving*> prompts;
  for (const auto& [key, serving] : servings_) {
    if (!serving->prompt.reservation) continue;
    const ReceiveMemory& memory = memory_.at(*serving->prompt.reservation);
    const bool asked_it = serving->fetch && serving->fetch->from == peer;
    const bool unclaimed =
        serving->state == RequestState::kQueuedRemote && (asked_it || (nobody_left && !serving->fetch));
    if (unclaimed || (memory.writer == peer && !memory.stopped)) prompts.push_back(serving.get());
  }
  for (Serving* serving : prompts) fall_back(*serving, "its prefill worker is lost", step);
  std::vector<ReservationId> open;
  for (const auto& [id, memory] : memory_)
    if (memory.writer == peer && !memory.stopped) open.push_back(id);
  for (const ReservationId id : open) fence(id, step);
}

void PageReceiver::on(const ReservationFenced& input, WorkerStep& step) {
  const auto memory = memory_.find(input.reservation);
  if (memory == memory_.end()) return;
  memory->second.stopped = true;
  settle(input.reservation, step);
}

void PageReceiver::ready(Serving& serving, WorkerStep& step) {
  waits_.clear(serving.generate.key);
  serving.state = RequestState::kReady;
  step.ready.push_back(serving.generate.key);
}

// The prompt is computed here, with what has arrived.
void PageReceiver::fall_back(Serving& serving, const std::string& why, WorkerStep& step) {
  step.count(serving.fetch ? Counter::kPrefixFetchesFailed : Counter::kFallbacks);
  step.log(serving.generate.key, "prefill here", why);
  if (!serving.fetch && serving.state != RequestState::kReceived && serving.state != RequestState::kWaitSpace)
    remote_failed(step);
  serving.waterfall.remote_tokens = serving.prompt.imported_to - serving.prompt.first_token;
  serving.waterfall.fallback = why;
  abandon(serving, step);
  ready(serving, step);
}

void PageReceiver::remote_failed(WorkerStep& step) {
  if (++remote_failures_ < config_.breaker_failures) return;
  remote_failures_ = 0;
  breaker_until_ = step.now + config_.breaker_open;
  step.count(Counter::kBreakerOpened);
}

void PageReceiver::abandon(Serving& serving, WorkerStep& step) {
  if (!serving.prompt.reservation) return;
  const ReservationId id = *serving.prompt.reservation;
  serving.prompt.reservation.reset();
  serving.prompt.slabs.clear();
  ReceiveMemory& memory = memory_.at(id);
  memory.abandoned = true;
  if (memory.quiet()) return settle(id, step);
  step.count(Counter::kQuarantined);
  step.want(Quarantine{id});
  if (!peers_.linked(memory.writer)) return fence(id, step);
  step.say(memory.writer, Cancel{memory.owner});
  fences_.set(id, step.now + config_.fence_after);
}

void PageReceiver::fence(ReservationId id, WorkerStep& step) {
  const auto found = memory_.find(id);
  if (found == memory_.end() || found->second.stopped || found->second.fencing) return;
  found->second.fencing = true;
  step.want(FenceReservation{id, found->second.writer});
}

// Gives memory back that no request waits for and no worker can reach; a request that waits for space asks
// again.
void PageReceiver::settle(ReservationId id, WorkerStep& step) {
  const auto found = memory_.find(id);
  if (found == memory_.end()) return;
  const ReceiveMemory& memory = found->second;
  if (!memory.abandoned || memory.importing || !memory.quiet()) return;
  fences_.clear(id);
  memory_.erase(found);
  step.want(FreeReservation{id});
  for (const auto& [key, serving] : servings_)
    if (serving->state == RequestState::kWaitSpace && !serving->prompt.reservation)
      return ask_for_space(*serving, step);
}

void PageReceiver::run_waits(WorkerStep& step) {
  while (const auto key = waits_.take_due(step.now))
    if (Serving* serving = find(servings_, *key))
      fall_back(*serving, format("it waited too long in the state {}", state_name(serving->state)), step);
}

void PageReceiver::run_fences(WorkerStep& step) {
  while (const auto id = fences_.take_due(step.now)) fence(*id, step);
}

int64_t PageReceiver::num_abandoned() const {
  return std::ranges::count_if(memory_, [](const auto& one) { return one.second.abandoned; });
}

std::string PageReceiver::describe() const {
  std::string text;
  for (const auto& [id, memory] : memory_)
    text += format("reservation {} of {:016x} writer={:016x} stopped={} importing={} abandoned={}\n",
        static_cast<uint64_t>(id), static_cast<uint64_t>(memory.owner.uid),
        static_cast<uint64_t>(memory.writer), memory.stopped, memory.importing, memory.abandoned);
  return text;
}

void PageReceiver::check_invariants() const {
  for (const auto& [key, serving] : servings_) {
    if (!serving->prompt.reservation) continue;
    const auto memory = memory_.find(*serving->prompt.reservation);
    CHEETAH_ASSERT(memory != memory_.end(), "a request's reservation is known");
    CHEETAH_ASSERT(!memory->second.abandoned, "and is not given up while the request waits for it");
  }
  for (const auto& [id, memory] : memory_) {
    if (memory.abandoned) continue;
    const Serving* serving = find(servings_, memory.owner);
    CHEETAH_ASSERT(
        serving != nullptr && serving->prompt.reservation == id, "a reservation has an owner or is given up");
  }
}

}  // namespace cheetah::cluster
