#include "engine/core.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

constexpr size_t kLoggedDecisions = 4096;

double seconds_between(EngineTime from, EngineTime to) {
  return std::chrono::duration<double>(to - from).count();
}

// The widest window when every layer has one, else 0.
int64_t widest_window(const ModelTraits& traits) {
  int64_t widest = 0;
  for (const LayerTraits& layer : traits.layers) {
    if (layer.window == 0) return 0;
    widest = std::max(widest, layer.window);
  }
  return widest;
}

SchedulerConfig scheduling_of(const EngineConfig& config) {
  return {.policy = config.policy,
          .preemption = config.preemption,
          .max_sequences = config.max_sequences,
          .max_batch_tokens = config.max_batch_tokens,
          .page_tokens = config.page_tokens,
          .step_target_s = config.step_target_ms / 1000};
}

}  // namespace

EngineCore::EngineCore(std::shared_ptr<const Model> model, const MemoryPlan& plan, EngineTime now)
    : model_(std::move(model)),
      config_(plan.config),
      scheduling_(scheduling_of(plan.config)),
      start_(now),
      threads_({.num_threads = config_.threads}),
      runner_(*model_, CpuContext{threads_, config_.precision}),
      kv_(model_->traits(), config_.kv_dtype, plan.num_pages, config_.page_tokens),
      bytes_(kv_, std::ssize(model_->traits().layers)),
      pool_(plan.num_pages, config_.page_tokens),
      cache_(pool_),
      sampler_(threads_.num_threads()),
      log_(kLoggedDecisions),
      window_(widest_window(model_->traits())) {
  config_.threads = threads_.num_threads();
  start_counters();
}

EngineCore::~EngineCore() {
  for (Sequence* sequence : running_) {
    withdraw_promise(*sequence);
    release_pages(*sequence);
  }
}

void EngineCore::start_counters() {
  stats_ = EngineStats();
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

std::string EngineCore::refusal(const GenerationRequest& request) const {
  if (refuses_) return "the engine is shutting down and takes no new requests";
  if (requests_.contains(request.id)) return "a request with this id is already running";
  if (request.prompt.empty()) return "the prompt has no tokens";
  if (std::ssize(request.prompt) > config_.max_context)
    return format("the prompt has {} tokens but the context holds {}", request.prompt.size(),
                  config_.max_context);
  for (const int32_t id : request.prompt)
    if (id < 0 || id >= model_->traits().vocab)
      return format("the prompt's token id {} is outside the model's vocabulary of {}", id,
                    model_->traits().vocab);
  if (request.n < 1 || request.max_tokens < 0) return "n must be at least 1 and max_tokens at least 0";
  if (request.best_of > config_.max_sequences || request.n > config_.max_sequences)
    return format("{} choices were asked for but at most {} sequences run at once",
                  std::max(request.n, request.best_of), config_.max_sequences);
  if (std::ssize(waiting_) >= config_.max_queue)
    return format("the queue is full: {} requests wait", waiting_.size());
  return "";
}

void EngineCore::submit(GenerationRequest request, EventSink sink, EngineTime now) {
  if (const std::string why = refusal(request); !why.empty()) return send_refusal(request, sink, why, now);
  auto state = std::make_unique<RequestState>();
  state->request = std::move(request);
  state->request.best_of = state->embeds() ? 1 : std::max(state->request.best_of, state->request.n);
  if (state->embeds()) state->request.n = 1;
  state->sink = std::move(sink);
  state->number = ++num_requests_;
  state->times.arrived = now;
  state->salts[0] = "short " + state->request.cache_salt;
  state->salts[1] = "long " + state->request.cache_salt;
  if (!state->request.ignore_eos || state->request.grammar) state->end_ids = model_->traits().eos_ids;
  state->end_ids.insert(state->end_ids.end(), state->request.stop_ids.begin(), state->request.stop_ids.end());
  stats_.prompt_lengths.observe(static_cast<double>(state->num_prompt()));
  start_sequence(*state, 0);
  Sequence& first = *state->choices.front();
  requests_.emplace(state->request.id, std::move(state));
  enqueue(first);
  note(DecisionKind::kArrived, first, now);
}

void EngineCore::send_refusal(const GenerationRequest& request, const EventSink& sink, const std::string& why,
                              EngineTime now) {
  ++stats_.finished_error;
  log_.add({.kind = DecisionKind::kRefused,
            .step = stats_.steps,
            .time_s = seconds_between(start_, now),
            .request = request.id,
            .free_pages = pool_.num_free()});
  GenerationEvent event;
  event.request = request.id;
  event.finish = FinishReason::kError;
  event.error = why;
  event.done = true;
  event.prompt_tokens = std::ssize(request.prompt);
  event.times.arrived = event.times.finished = now;
  sink(std::move(event));
}

void EngineCore::start_sequence(RequestState& request, int choice) {
  auto sequence = std::make_unique<Sequence>(request, choice);
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

void EngineCore::finish_all(FinishReason reason, const std::string& error, EngineTime now) {
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
  std::erase_if(requests_, [](const auto& entry) {
    return entry.second->num_finished == entry.second->request.best_of;
  });
}

EngineStats EngineCore::stats() const {
  EngineStats stats = stats_;
  stats.running = std::ssize(running_);
  stats.waiting = std::ssize(waiting_);
  stats.swapped = std::ranges::count_if(waiting_, [](const Sequence* s) { return s->swapped_pages > 0; });
  const PageUse use = pool_.use();
  stats.pages_total = use.total;
  stats.pages_free = use.free;
  stats.pages_cached = use.idle;
  return stats;
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
      held += std::ssize(sequence->pages) - sequence->num_dropped();
      CHEETAH_ASSERT(sequence->status == SequenceStatus::kRunning || sequence->pages.empty(),
                     "only a running sequence holds pages");
    }
  int64_t holders = 0;
  for (PageIndex page = 0; page < pool_.num_pages(); ++page) holders += pool_.sequences(page);
  CHEETAH_ASSERT(held == holders, "every holder is a sequence or the cache");
}

}  // namespace cheetah
