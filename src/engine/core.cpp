// SPDX-License-Identifier: MIT
#include "engine/core.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "engine/crash_bundle.h"
#include "engine/kv/chain_hash.h"
#include "kernels/attention/scaled_row.h"
#include "model/cuda/cuda_runner.h"

namespace cheetah {
namespace {

// When nothing can run although something waits, the engine looks again after this long.
constexpr auto kRetry = std::chrono::milliseconds(1);
// When all requests are paused only a deadline can come up, and a resumed one wakes the engine.
constexpr auto kPausedRetry = std::chrono::milliseconds(20);
// Launches that fail in a row, with no step done in between, before the engine gives up: no request succeeds.
constexpr int64_t kMostFailed = 8;

}  // namespace

std::unique_ptr<Runner> make_engine_runner(
    const Model& model, const EngineConfig& config, ThreadPool& threads) {
  if (config.device == DeviceKind::kCuda) return make_cuda_runner(model, config.precision);
  return std::make_unique<CpuRunner>(model, CpuContext{threads, config.precision});
}

EngineCore::EngineCore(std::shared_ptr<const Model> model, const MemoryPlan& plan, const TimeSource& time,
    LogSink& log, const RunnerFactory& make_runner)
    : model_(std::move(model)),
      config_(plan.config),
      threads_({.num_threads = config_.threads}),
      runner_(make_runner(*model_, config_, threads_)),
      kv_(runner_->make_kv_pool({.dtype = config_.kv_dtype,
          .num_pages = plan.num_pages,
          .page_tokens = config_.page_tokens,
          .layout = plan.layout})),
      pages_({.traits = model_->traits(),
                 .layout = plan.layout,
                 .num_pages = plan.num_pages,
                 .page_tokens = config_.page_tokens,
                 .prefix_cache = config_.prefix_cache},
          kv_),
      record_(config_, pages_.pool(), time.now()),
      watch_(pages_.cache()),
      exports_(pages_),
      imports_(pages_, config_, model_->traits().vocab),
      requests_(*model_, config_, plan.layout.windows.size(), record_.start()),
      flights_(*runner_, kv_, pages_.pool()),
      finisher_({.traits = model_->traits(),
          .config = config_,
          .requests = requests_,
          .pages = pages_,
          .flights = flights_,
          .exports = exports_,
          .imports = imports_,
          .outbox = outbox_,
          .record = record_}),
      speculator_({.traits = model_->traits(), .config = config_, .record = record_}),
      planner_({.traits = model_->traits(),
          .config = config_,
          .requests = requests_,
          .pages = pages_,
          .exports = exports_,
          .speculator = speculator_}),
      steps_({.traits = model_->traits(),
          .flights = flights_,
          .pages = pages_,
          .exports = exports_,
          .requests = requests_,
          .planner = planner_,
          .finisher = finisher_,
          .speculator = speculator_,
          .record = record_,
          .time = time,
          .log = log}) {
  config_.threads = threads_.num_threads();
}

EngineCore::~EngineCore() {
  flights_.drop();
  for (Sequence* sequence : requests_.running()) pages_.abandon(*sequence);
}

void EngineCore::reset_counters() {
  record_.reset();
  pages_.empty_cache();
}

std::optional<RequestError> EngineCore::refusal(const GenerationRequest& request) const {
  if (fault_) return has_failed();
  if (refuses_) return is_draining();
  if (requests_.contains(request.id))
    return RequestError{ErrorKind::kBadRequest, "a request with this id is already running"};
  if (auto error = refusal_of(request, config_, model_->traits())) return error;
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
    outbox_.send(*state, refusal_event(state->request, *error, now));
    state->num_finished = state->request.best_of;
    return outbox_.keep(std::move(state));
  }
  RequestState& added = requests_.add(std::move(state));
  try {
    start(added, now);
  } catch (const std::exception& error) {
    finisher_.fail(added, error, now);
  }
  finisher_.sweep();
}

void EngineCore::start(RequestState& state, EngineTime now) {
  GenerationRequest& request = state.request;
  request.best_of = state.embeds() ? 1 : std::max(request.best_of, request.n);
  if (state.embeds()) request.n = 1;
  for (const bool is_long : {false, true}) state.salts[is_long] = prefix_salt(request.cache_salt, is_long);
  if (!request.ignore_eos || request.grammar) state.end_ids = model_->traits().eos_ids;
  state.end_ids.insert(state.end_ids.end(), request.stop_ids.begin(), request.stop_ids.end());
  record_.observe_arrival(state);
  requests_.start_choice(state);
  record_.note(DecisionKind::kArrived, *state.choices.front(), now);
  if (request.resume.empty()) return requests_.enqueue(*state.choices.front());
  finisher_.resume(state, now);
}

void EngineCore::note_refused(RequestId id, EngineTime now) {
  if (!requests_.contains(id)) {
    imports_.unpin(id);
    exports_.end(id, "the request was refused");
  }
  record_.note_refused(id, now);
}

void EngineCore::cancel(RequestId id, EngineTime now) {
  RequestState* const request = requests_.find(id);
  if (!request) return;
  finisher_.finish_request(*request, FinishReason::kCancelled, now);
  finisher_.sweep();
}

void EngineCore::pause(RequestId id, bool paused, EngineTime now) {
  RequestState* const request = requests_.find(id);
  if (!request || std::exchange(request->paused, paused) == paused) return;
  record_.note(paused ? DecisionKind::kPaused : DecisionKind::kResumed, *request->choices.front(), now);
}

void EngineCore::finish_all(FinishReason reason, EngineTime now, const RequestError& error) {
  finisher_.finish_all(reason, now, error);
}

EngineCore::StepResult EngineCore::step(EngineTime now) {
  if (fault_) return {};
  try {
    finisher_.expire(now);
    if (!plan(now)) return {};
    apply_plan(now);
    if (steps_.empty() && flights_.empty()) return nothing_computed(now);
    steps_.empty() ? steps_.land() : steps_.compute();
  } catch (const std::exception& error) {  // outside any one request's part: all may be half way
    fail_step(error, now);
  }
  if (!fault_ && steps_.num_failed() >= kMostFailed)
    end_with({.kind = FaultKind::kStepsFail,
                 .why = format("{} steps in a row have failed, the last with: {}", steps_.num_failed(),
                     steps_.last_failure().why),
                 .last = steps_.last_failure()},
        now);
  return {.computed = true, .wake = std::nullopt};
}

// False: there is nothing to plan.
bool EngineCore::plan(EngineTime now) {
  const bool ahead = flights_.takes_several() && planner_.looks_ahead();
  if (requests_.empty() || !ahead) steps_.land_all();
  if (finisher_.take_suspicion()) {
    steps_.land_all();
    pages_.empty_cache();
  }
  if (requests_.empty()) return false;
  planner_.plan(now);
  if (flights_.empty() || planner_.plan_runs_ahead()) return true;
  steps_.land_all();
  planner_.plan(now);
  return true;
}

void EngineCore::apply_plan(EngineTime now) {
  const StepPlan& plan = planner_.last();
  steps_.clear();
  planner_.follow();
  for (const StepPlan::Preempted& preempted : plan.preemptions) {
    Sequence& sequence = planner_.running(preempted.index);
    ++record_.stats().preemptions;
    pages_.give_up(sequence, preempted.how);
    requests_.requeue(sequence);
    record_.note(
        DecisionKind::kPreempted, sequence, now, {.preempt = preempted.reason, .how = preempted.how});
  }
  for (const auto& chunk : plan.decodes) steps_.add(planner_.running(chunk.index), chunk.tokens);
  for (const auto& chunk : plan.prefills) steps_.add(planner_.running(chunk.index), chunk.tokens);
  for (const auto& chunk : plan.admissions) {
    Sequence& sequence = planner_.waiting(chunk.index);
    if (!admit(sequence, now) || chunk.tokens == 0) continue;
    const int64_t pending = sequence.pending();
    steps_.add(sequence, sequence.long_factors ? pending : std::min(chunk.tokens, pending));
  }
  if (const auto hold = planner_.new_hold())
    record_.note(DecisionKind::kHeldBack, hold->sequence, now, {.held = hold->reason});
}

bool EngineCore::admit(Sequence& sequence, EngineTime now) {
  const auto admission = pages_.admit(sequence);
  if (!admission) return false;
  RequestState& request = *sequence.request;
  EngineStats& stats = record_.stats();
  if (admission->looked_up) {
    stats.prefix_queries += sequence.tokens.size();
    stats.prefix_hits += static_cast<uint64_t>(admission->ready_tokens);
  }
  if (!admission->swapped_in) {
    if (sequence.num_generated == sequence.num_resumed) {
      request.cached_tokens = std::min(admission->ready_tokens, request.num_prompt());
      stats.cached_prompt_tokens += static_cast<uint64_t>(request.cached_tokens);
    }
    imports_.unpin(request.request.id);
    record_.note(DecisionKind::kAdmitted, sequence, now, {.cached = admission->ready_tokens});
  }
  requests_.run(sequence);
  record_.observe_scheduled(request, now);
  return true;
}

EngineCore::StepResult EngineCore::nothing_computed(EngineTime now) {
  const bool all_paused =
      std::ranges::all_of(requests_.all(), [](const auto& request) { return request.second->paused; });
  if (all_paused) return {.computed = false, .wake = now + kPausedRetry};
  // Nothing can run for want of pages: imported ones are the least loss, they can be computed here.
  if (planner_.last().held_back == HoldReason::kPagesShort && imports_.unpin_oldest())
    return {.computed = false, .wake = now};
  const auto& wake_in_s = planner_.last().wake_in_s;
  return {.computed = false,
      .wake = now + (wake_in_s ? from_seconds(*wake_in_s) : SteadyClock::duration(kRetry))};
}

void EngineCore::fail_step(const std::exception& error, EngineTime now) {
  const std::string device = runner_->device_fault();
  if (device.empty())
    finisher_.finish_all(FinishReason::kError, now, Finisher::error_of(error));
  else
    end_with({.kind = FaultKind::kDeviceFailed,
                 .why = format("the device has failed: {}", device),
                 .last = steps_.last_failure()},
        now);
  flights_.drop();
}

void EngineCore::end_with(EngineFault fault, EngineTime now) {
  fault.bundle = crash_bundle(fault, {.config = config_,
                                         .time_s = seconds(record_.start(), now),
                                         .stats = stats(),
                                         .decisions = record_.decisions(),
                                         .requests = requests_});
  fault_ = std::move(fault);
  finisher_.finish_all(FinishReason::kError, now, has_failed());
}

void EngineCore::give_up(const std::string& why, EngineTime now) {
  end_with({.kind = FaultKind::kStepHangs, .why = why, .last = steps_.describe_flights(why)}, now);
  flights_.forget();
}

void EngineCore::deliver(EngineTime now) {
  outbox_.deliver([&](RequestState& request) {
    if (request.num_finished < request.request.best_of)
      finisher_.finish_request(request, FinishReason::kCancelled, now);
  });
  finisher_.sweep();
  exports_.deliver();
  watch_.deliver();
  flights_.keep(outbox_.finished());
}

EngineCore::ExportNumber EngineCore::open_export(RequestId id, int64_t end_token, ExportSink sink) {
  return exports_.open(id, end_token, std::move(sink));
}

KvImported EngineCore::import_pages(const KvImport& pages) {
  const RequestState* const request = requests_.find(pages.request);
  return imports_.take(pages, {.num_running = std::ssize(requests_.running()),
                                  .pins = request == nullptr || !request->was_scheduled});
}

int64_t EngineCore::cached_tokens(std::string_view cache_salt, std::span<const int32_t> text) const {
  return pages_.cached_tokens(cache_salt, text);
}

KvFormat EngineCore::kv_format() {
  const PagedKv slot = kv_.slot(0);
  const KvLayout& layout = pages_.layout();
  const bool by_dimension = page_bytes().on_host() && keys_lie_by_dimension(slot);
  return {.dtype = std::string(name_of(slot.dtype)),
      .order = by_dimension ? "keys_by_dimension" : "keys_by_token",
      .page_tokens = config_.page_tokens,
      .num_layers = layout.slots * layout.num_groups(),
      .num_kv_heads = slot.kv_heads,
      .key_dim = slot.key_dim,
      .value_dim = slot.values ? slot.value_dim : 0,
      .windows = layout.windows,
      .page_bytes = page_bytes().page_bytes(),
      .num_pages = pages_.pool().num_pages()};
}

}  // namespace cheetah
