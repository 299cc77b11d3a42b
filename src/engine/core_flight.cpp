// Steps on their way: what is submitted, what comes back, and what may run ahead of it.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "engine/core.h"
#include "engine/moving_average.h"
#include "model/rope_scaling.h"

namespace cheetah {
namespace {

constexpr double kRateMemory_s = 5;
constexpr double kNewestWeight = 0.2;  // of a step in the averages of their times
constexpr double kWholeChunk = 128;    // tokens; a step of fewer says less of what a token costs

EngineTime clock_now() { return std::chrono::steady_clock::now(); }

}  // namespace

RequestError EngineCore::error_of(const std::exception& error) {
  return {ErrorKind::kInternal, format("the engine failed at this request: {}", error.what())};
}

void EngineCore::fail(RequestState& request, const std::exception& error) {
  finish_request(request, FinishReason::kError, clock_now(), error_of(error));
}

template <class Action>
void EngineCore::guarded(Sequence& sequence, const Action& action) {
  if (sequence.status == SequenceStatus::kDone) return;
  try {
    action();
  } catch (const std::exception& error) {
    fail(*sequence.request, error);
  }
}

EngineCore::Flight* EngineCore::newest_flight() {
  if (num_flights_ == 0) return nullptr;
  return &flights_[(oldest_flight_ + num_flights_ - 1) % flights_.size()];
}

// What the next step does is known before the tokens of the one in flight are: no grammar has to see them, no
// logits go through the host, and no keys are turned anew.
bool EngineCore::can_run_ahead(const Sequence& sequence) const {
  const RequestState& state = *sequence.request;
  const GenerationRequest& request = state.request;
  const auto length = std::ssize(sequence.tokens);
  return !request.grammar && request.typical_p >= 1.f && !request.prompt_logprobs && !state.embeds() &&
         !rope_changes(model_->traits(), length, length + 1);
}

bool EngineCore::looks_ahead() const {
  return flights_.size() > 1 &&
         std::ranges::all_of(running_, [this](const Sequence* s) { return can_run_ahead(*s); });
}

// Preempting a sequence needs its tokens.
bool EngineCore::plan_runs_ahead() const {
  return plan_.preemptions.empty() && std::ranges::all_of(plan_.admissions, [this](const auto& chunk) {
           return can_run_ahead(*was_waiting_[static_cast<size_t>(chunk.index)]);
         });
}

// Whatever comes back, there is no further step for it.
bool EngineCore::ends_in_flight(const Sequence& sequence) const {
  if (sequence.request->embeds()) return sequence.pending() == 0;
  return sequence.awaited > 0 &&
         (sequence.num_generated + sequence.awaited >= sequence.request->request.max_tokens ||
          std::ssize(sequence.tokens) >= config_.max_context);
}

// Throws without having changed anything when the runner does not take the batch.
void EngineCore::launch() {
  const EngineTime now = clock_now();
  samples_.clear();
  for (const Work& work : works_)
    if (work.completes && !work.sequence->request->embeds()) add_samples(work);
  for (size_t group = 1; group < layout_.windows.size(); ++group)
    for (size_t i = 0; i < works_.size(); ++i) {
      further_groups_.push_back(batch_sequences_[i]);
      further_groups_.back().pages = works_[i].sequence->lists[group].pages;
    }
  const StepTicket ticket =
      runner_->submit({.tokens = batch_tokens_,
                       .sequences = batch_sequences_,
                       .further_groups = further_groups_,
                       .logit_rows = logit_rows_,
                       .hidden_rows = hidden_rows_},
                      {.fed = batch_fed_, .samples = samples_, .host_logits = host_logits_}, kv_);
  ++num_flights_;
  Flight& flight = *newest_flight();
  flight.ticket = ticket;
  flight.begun = now;
  flight.shape = shape_;
  std::swap(flight.works, works_);
  flight.owners.assign(samples_.size(), nullptr);
  int64_t sample = 0;
  for (const Work& work : flight.works) set_off(flight, work, sample, now);
}

// The sequence's state once its part of the step is on its way.
void EngineCore::set_off(Flight& flight, const Work& work, int64_t& sample, EngineTime now) {
  RequestState& request = *work.sequence->request;
  const bool samples = work.completes && !request.embeds();
  const int64_t first = sample;
  if (samples) sample += work.forks ? request.request.best_of : 1;
  guarded(*work.sequence, [&] {
    work.sequence->submitted = work.end;
    if (!samples) return;
    if (work.forks) fork(request, now);
    for (int64_t i = first; i < sample; ++i) {
      Sequence& owner = work.forks ? *request.choices[static_cast<size_t>(i - first)] : *work.sequence;
      flight.owners[static_cast<size_t>(i)] = &owner;
      owner.sample = i;
      ++owner.awaited;
    }
  });
}

// Waits for the oldest step and takes what it brings.
void EngineCore::land() {
  Flight& flight = flights_[oldest_flight_];
  oldest_flight_ = (oldest_flight_ + 1) % flights_.size();
  --num_flights_;
  commit(flight, runner_->wait(flight.ticket));
  observe_step(flight, clock_now());
  close(flight);
  forget_finished();
}

void EngineCore::land_all() {
  while (num_flights_ > 0) land();
}

// Nothing they bring matters any more.
void EngineCore::drop_flights() {
  for (; num_flights_ > 0; --num_flights_) {
    const StepTicket ticket = flights_[oldest_flight_].ticket;
    oldest_flight_ = (oldest_flight_ + 1) % flights_.size();
    try {
      runner_->wait(ticket);
    } catch (const std::exception&) {  // whoever needed it has been told
    }
  }
  for (Flight& flight : flights_) close(flight);
}

void EngineCore::close(Flight& flight) {
  for (const PageIndex page : flight.pages) pool_.release(page);
  flight.pages.clear();
  flight.requests.clear();
  flight.works.clear();
  flight.owners.clear();
}

void EngineCore::commit(const Flight& flight, const StepResult& result) {
  const EngineTime now = clock_now();
  for (const Work& work : flight.works) guarded(*work.sequence, [&] { commit_work(work, result, now); });
  for (size_t i = 0; i < flight.owners.size(); ++i)
    if (Sequence* const owner = flight.owners[i])
      guarded(*owner, [&] {
        --owner->awaited;
        take_token(*owner, result.sampled[i], now);
      });
}

void EngineCore::commit_work(const Work& work, const StepResult& result, EngineTime now) {
  Sequence& sequence = *work.sequence;
  sequence.computed = work.end;
  if (work.forks)
    for (const auto& choice : sequence.request->choices)
      if (choice->status == SequenceStatus::kRunning) {
        choice->computed = work.end;
        if (choice.get() != &sequence) drop_unseen_pages(*choice);
      }
  publish(sequence);
  if (!exports_.empty()) advance_exports(sequence);
  drop_unseen_pages(sequence);
  collect_prompt_logprobs(work, result.logits);
  collect_hidden(work, result.hidden);
  if (work.completes && sequence.request->embeds()) finish(sequence, FinishReason::kStop, now);
}

void EngineCore::observe_step(const Flight& flight, EngineTime end) {
  const EngineTime begin = std::max(flight.begun, last_landing_);
  last_landing_ = end;
  const double seconds = std::chrono::duration<double>(end - begin).count();
  learner_.observe(flight.shape, seconds);
  ++stats_.steps;
  stats_.step_seconds += seconds;
  stats_.last_step_ms = seconds * 1000;
  stats_.last_batch_tokens = flight.shape.tokens;
  stats_.last_batch_sequences = std::ssize(flight.works);
  stats_.step_tokens.observe(static_cast<double>(flight.shape.tokens));
  const auto num_sequences = std::ssize(flight.works);
  if (flight.shape.tokens == num_sequences)
    average_in(stats_.decode_step_us, seconds * 1e6, kNewestWeight);
  else if (flight.shape.tokens >= 2 * num_sequences) {  // most of it is prompts
    const auto tokens = static_cast<double>(flight.shape.tokens);
    average_in(stats_.prefill_us_per_token, seconds * 1e6 / tokens,
               kNewestWeight * std::min(1.0, tokens / kWholeChunk));
  }
  const double rate = static_cast<double>(flight.shape.tokens) / std::max(seconds, 1e-6);
  const double weight = stats_.steps == 1 ? 1 : 1 - std::exp(-seconds / kRateMemory_s);
  stats_.drain_tokens_per_s += weight * (rate - stats_.drain_tokens_per_s);
}

}  // namespace cheetah
