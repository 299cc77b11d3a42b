#include "engine/core.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "engine/kv/chain_hash.h"
#include "model/cuda/cuda_runner.h"

namespace cheetah {
namespace {

double seconds_between(EngineTime from, EngineTime to) {
  return std::chrono::duration<double>(to - from).count();
}

SchedulerConfig scheduling_of(const MemoryPlan& plan) {
  const EngineConfig& config = plan.config;
  return {.policy = config.policy,
          .preemption = config.preemption,
          .max_sequences = config.max_sequences,
          .max_batch_tokens = config.max_batch_tokens,
          .page_tokens = config.page_tokens,
          .full_groups = plan.layout.num_full_groups(),
          .window_groups = plan.layout.num_window_groups(),
          .step_target_s = config.step_target_ms / 1000};
}

}  // namespace

std::unique_ptr<Runner> make_engine_runner(const Model& model, const EngineConfig& config,
                                           ThreadPool& threads) {
  if (config.device == DeviceKind::kCuda) return make_cuda_runner(model, config.precision);
  return std::make_unique<CpuRunner>(model, CpuContext{threads, config.precision});
}

EngineCore::EngineCore(std::shared_ptr<const Model> model, const MemoryPlan& plan, EngineTime now,
                       const RunnerFactory& make_runner)
    : model_(std::move(model)),
      config_(plan.config),
      scheduling_(scheduling_of(plan)),
      start_(now),
      threads_({.num_threads = config_.threads}),
      runner_(make_runner(*model_, config_, threads_)),
      layout_(plan.layout),
      kv_(runner_->make_kv_pool({.dtype = config_.kv_dtype,
                                 .num_pages = plan.num_pages,
                                 .page_tokens = config_.page_tokens,
                                 .layout = layout_})),
      bytes_(kv_),
      pool_(plan.num_pages, config_.page_tokens),
      cache_(pool_, plan.layout.windows),
      flights_(static_cast<size_t>(runner_->max_steps_in_flight())) {
  config_.threads = threads_.num_threads();
  start_counters();
}

EngineCore::~EngineCore() {
  drop_flights();
  for (Sequence* sequence : running_) {
    withdraw_promise(*sequence);
    release_pages(*sequence);
  }
}

// What was learned of the steps' times stays.
void EngineCore::start_counters() {
  EngineStats fresh;
  fresh.prefill_us_per_token = stats_.prefill_us_per_token;
  fresh.decode_step_us = stats_.decode_step_us;
  stats_ = std::move(fresh);
  for (Histogram* histogram : {&stats_.ttft_s, &stats_.itl_s, &stats_.tpot_s, &stats_.e2e_s, &stats_.queue_s,
                               &stats_.prefill_s, &stats_.decode_s})
    *histogram = Histogram(latency_bounds());
  stats_.step_tokens = Histogram(token_bounds(config_.max_batch_tokens));
  stats_.prompt_lengths = stats_.output_lengths = Histogram(token_bounds(config_.max_context));
}

void EngineCore::reset_counters() {
  start_counters();
  cache_.evict(pool_.num_pages());
}

std::optional<RequestError> EngineCore::refusal(const GenerationRequest& request) const {
  if (refuses_) return is_draining();
  if (requests_.contains(request.id))
    return RequestError{ErrorKind::kBadRequest, "a request with this id is already running"};
  if (const auto error = refusal_of(request, config_, model_->traits())) return error;
  if (num_waiting() >= config_.max_queue) return queue_is_full(num_waiting());
  return std::nullopt;
}

void EngineCore::submit(GenerationRequest request, EventSink sink, EngineTime now) {
  auto state = std::make_unique<RequestState>();
  state->request = std::move(request);
  state->sink = std::move(sink);
  state->times.arrived = now;
  if (const auto error = refusal(state->request)) {
    note_refused(state->request.id, now);
    outbox_.push_back({state.get(), refusal_event(state->request, *error, now)});
    state->num_finished = state->request.best_of;
    finished_.push_back(std::move(state));
    return;
  }
  RequestState& added = *requests_.emplace(state->request.id, std::move(state)).first->second;
  try {
    add_request(added, now);
    forget_finished();
  } catch (const std::exception& error) {
    fail(added, error);
    forget_finished();
  }
}

void EngineCore::add_request(RequestState& state, EngineTime now) {
  GenerationRequest& request = state.request;
  request.best_of = state.embeds() ? 1 : std::max(request.best_of, request.n);
  if (state.embeds()) request.n = 1;
  state.number = ++num_requests_;
  for (const bool is_long : {false, true}) state.salts[is_long] = prefix_salt(request.cache_salt, is_long);
  if (!request.ignore_eos || request.grammar) state.end_ids = model_->traits().eos_ids;
  state.end_ids.insert(state.end_ids.end(), request.stop_ids.begin(), request.stop_ids.end());
  stats_.prompt_lengths.observe(static_cast<double>(state.num_prompt()));
  start_sequence(state, 0);
  note(DecisionKind::kArrived, *state.choices.front(), now);
  if (request.resume.empty()) return enqueue(*state.choices.front());
  resume(state, now);
}

void EngineCore::note_refused(RequestId id, EngineTime now) {
  if (!requests_.contains(id)) {
    unpin(id);
    end_exports(id, "the request was refused");
  }
  ++stats_.finished_error;
  log_.add({.kind = DecisionKind::kRefused,
            .step = stats_.steps,
            .time_s = seconds_between(start_, now),
            .request = id,
            .free_pages = pool_.num_free()});
}

void EngineCore::start_sequence(RequestState& request, int choice) {
  auto sequence = std::make_unique<Sequence>(request, choice);
  sequence->lists.resize(layout_.windows.size());
  const GenerationRequest& wanted = request.request;
  const int64_t work = request.num_prompt() + (request.embeds() ? 0 : wanted.max_tokens * wanted.best_of);
  sequence->rank = make_rank(wanted.priority, seconds_between(start_, request.times.arrived),
                             config_.ageing_s, work, request.number * 1024 + static_cast<uint64_t>(choice));
  if (wanted.grammar) sequence->grammar.emplace(grammars_.start(wanted.grammar));
  if (model_->tokenizer()) sequence->decoder.emplace(*model_->tokenizer(), wanted.skip_special);
  sequence->event.request = wanted.id;
  sequence->event.choice = choice;
  request.choices.push_back(std::move(sequence));
}

void EngineCore::enqueue(Sequence& sequence) {
  sequence.status = SequenceStatus::kWaiting;
  waiting_.insert(std::ranges::upper_bound(waiting_, sequence.rank, {}, &Sequence::rank), &sequence);
}

void EngineCore::cancel(RequestId id, EngineTime now) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  finish_request(*found->second, FinishReason::kCancelled, now);
  forget_finished();
}

void EngineCore::pause(RequestId id, bool paused, EngineTime now) {
  const auto found = requests_.find(id);
  if (found == requests_.end() || found->second->paused == paused) return;
  found->second->paused = paused;
  note(paused ? DecisionKind::kPaused : DecisionKind::kResumed, *found->second->choices.front(), now);
}

void EngineCore::finish_all(FinishReason reason, EngineTime now, const RequestError& error) {
  for (auto& [id, request] : requests_) finish_request(*request, reason, now, error);
  forget_finished();
}

void EngineCore::expire(EngineTime now) {
  for (auto& [id, request] : requests_)
    if (request->request.deadline && *request->request.deadline <= now)
      finish_request(*request, FinishReason::kDeadline, now);
  forget_finished();
}

void EngineCore::forget_finished() {
  if (!any_finished_) return;
  any_finished_ = false;
  const auto is_done = [](const Sequence* s) { return s->status == SequenceStatus::kDone; };
  std::erase_if(running_, is_done);
  std::erase_if(waiting_, is_done);
  last_held_ = nullptr;
  for (auto at = requests_.begin(); at != requests_.end();) {
    const bool is_last = at->second->num_finished == at->second->request.best_of;
    if (is_last) {
      unpin(at->first);
      end_exports(at->first, "the request ended before its prompt was computed");
      finished_.push_back(std::move(at->second));
    }
    at = is_last ? requests_.erase(at) : std::next(at);
  }
}

// A sink that throws has lost its client: its request is cancelled, and those of others do not notice.
void EngineCore::deliver(EngineTime now) {
  for (size_t i = 0; i < outbox_.size(); ++i) {  // by index: a cancelled request sends more
    RequestState& request = *outbox_[i].request;
    if (!request.sink) continue;
    try {
      request.sink(std::move(outbox_[i].event));
    } catch (...) {
      request.sink = nullptr;
      if (request.num_finished < request.request.best_of)
        finish_request(request, FinishReason::kCancelled, now);
    }
  }
  outbox_.clear();
  forget_finished();
  deliver_reports();
  if (Flight* const flight = newest_flight())
    std::ranges::move(finished_, std::back_inserter(flight->requests));
  finished_.clear();
}

EngineStats EngineCore::stats() const {
  EngineStats stats;
  copy_stats(stats);
  return stats;
}

void EngineCore::copy_stats(EngineStats& stats) const {
  stats = stats_;
  stats.running = std::ssize(running_);
  stats.waiting = num_waiting();
  stats.swapped = std::ranges::count_if(waiting_, [](const Sequence* s) { return s->swapped_pages > 0; });
  const auto is_paused = [](const Sequence* s) { return s->request->paused; };
  stats.paused = std::ranges::count_if(running_, is_paused) + std::ranges::count_if(waiting_, is_paused);
  const PageUse use = pool_.use();
  stats.pages_total = use.total;
  stats.pages_free = use.free;
  stats.pages_cached = use.idle;
  stats.kv_occupancy = static_cast<double>(use.held() - use.idle) / static_cast<double>(use.total);
  stats.fragmentation = measure_fragmentation();
  stats.graphs = runner_->graph_use();
  for (const auto* sequences : {&running_, &waiting_})
    for (const Sequence* sequence : *sequences) count_work_left(*sequence, stats);
}

void EngineCore::count_work_left(const Sequence& sequence, EngineStats& stats) const {
  const RequestState& state = *sequence.request;
  const int64_t pending = sequence.pending();
  if (sequence.num_generated == 0 || pending > 1) stats.prefill_tokens_left += pending;
  if (state.embeds()) return;
  const int64_t left = std::min(state.request.max_tokens - sequence.num_generated,
                                config_.max_context + 1 - std::ssize(sequence.tokens));
  stats.decode_tokens_left += std::max<int64_t>(0, left) * (state.forked() ? 1 : state.request.best_of);
}

double EngineCore::measure_fragmentation() const {
  int64_t held = 0, stored = 0;  // shared pages count once a sequence
  for (const Sequence* sequence : running_) {
    held += sequence->num_held_pages();
    for (const PageList& list : sequence->lists)
      stored +=
          std::min(sequence->computed, list.size() * pool_.page_tokens()) - list.first * pool_.page_tokens();
  }
  return fragmentation(held, pool_.page_tokens(), stored);
}

void EngineCore::note(DecisionKind kind, const Sequence& sequence, EngineTime now, Decision decision) {
  decision.kind = kind;
  decision.step = stats_.steps;
  decision.time_s = seconds_between(start_, now);
  decision.request = sequence.request->request.id;
  if (kind != DecisionKind::kForked) decision.choice = sequence.choice;
  decision.tokens = std::ssize(sequence.tokens);
  decision.free_pages = pool_.num_free();
  log_.add(decision);
}

void EngineCore::check_invariants() const {
  pool_.check_invariants();
  cache_.check_invariants();
  int64_t held = 0;  // by sequences, each counted
  for (const auto& [id, request] : requests_)
    for (const auto& sequence : request->choices) {
      held += sequence->num_held_pages();
      CHEETAH_ASSERT(sequence->status == SequenceStatus::kRunning || sequence->num_held_pages() == 0,
                     "only a running sequence holds pages");
    }
  for (const Flight& flight : flights_) held += std::ssize(flight.pages);
  for (const Export& exported : exports_)
    for (const PageList& list : exported.pages.lists) held += list.num_held();
  for (const Pin& pin : pins_) held += std::ssize(pin.pages);
  int64_t holders = 0;
  for (PageIndex page = 0; page < pool_.num_pages(); ++page) holders += pool_.sequences(page);
  CHEETAH_ASSERT(held == holders, "every holder is a sequence or the cache");
}

}  // namespace cheetah
