// SPDX-License-Identifier: MIT
#include "engine/engine_record.h"

#include <algorithm>
#include <cmath>

#include "base/time.h"
#include "engine/moving_average.h"

namespace cheetah {
namespace {

constexpr double kRateMemory_s = 5;
constexpr double kNewestWeight = 0.2;  // of a step in the averages of their times
constexpr double kWholeChunk = 128;    // tokens; a step of fewer says less about the cost of a token

}  // namespace

EngineRecord::EngineRecord(const EngineConfig& config, const PagePool& pool, EngineTime start)
    : config_(config), pool_(pool), start_(start) {
  reset();
}

void EngineRecord::reset() {
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

void EngineRecord::note(DecisionKind kind, const Sequence& sequence, EngineTime now, Decision decision) {
  decision.kind = kind;
  decision.step = stats_.steps;
  decision.time_s = seconds(start_, now);
  decision.request = sequence.request->request.id;
  if (kind != DecisionKind::kForked) decision.choice = sequence.choice;
  decision.tokens = std::ssize(sequence.tokens);
  decision.free_pages = pool_.num_free();
  log_.add(decision);
}

void EngineRecord::note_refused(RequestId id, EngineTime now) {
  ++stats_.finished_error;
  log_.add({.kind = DecisionKind::kRefused,
      .step = stats_.steps,
      .time_s = seconds(start_, now),
      .request = id,
      .free_pages = pool_.num_free()});
}

void EngineRecord::observe_arrival(const RequestState& request) {
  stats_.prompt_lengths.observe(static_cast<double>(request.num_prompt()));
}

void EngineRecord::observe_scheduled(RequestState& request, EngineTime now) {
  if (std::exchange(request.was_scheduled, true)) return;
  request.times.scheduled = now;
  stats_.queue_s.observe(seconds(request.times.arrived, now));
  stats_.prompt_tokens += static_cast<uint64_t>(request.num_prompt());
}

void EngineRecord::observe_token(Sequence& sequence, EngineTime now) {
  RequestTimes& times = sequence.request->times;
  if (times.first_token == EngineTime{}) {
    times.first_token = now;
    stats_.ttft_s.observe(seconds(times.arrived, now));
    stats_.prefill_s.observe(seconds(times.scheduled, now));
  } else if (sequence.last_token != EngineTime{}) {
    stats_.itl_s.observe(seconds(sequence.last_token, now));
  }
  sequence.last_token = now;
}

void EngineRecord::observe_finished(const RequestState& request, FinishReason reason) {
  uint64_t* const counters[] = {&stats_.finished_stop, &stats_.finished_length, &stats_.finished_cancelled,
      &stats_.finished_deadline, &stats_.finished_error};
  ++*counters[static_cast<size_t>(reason)];
  int64_t generated = 0;
  for (const auto& choice : request.choices) generated += choice->num_generated;
  const RequestTimes& times = request.times;
  stats_.e2e_s.observe(seconds(times.arrived, times.finished));
  stats_.output_lengths.observe(static_cast<double>(generated));
  if (times.first_token == EngineTime{}) return;
  const double decode = seconds(times.first_token, times.finished);
  stats_.decode_s.observe(decode);
  const double per_choice = static_cast<double>(generated) / static_cast<double>(request.choices.size());
  if (per_choice > 1) stats_.tpot_s.observe(decode / (per_choice - 1));
}

void EngineRecord::observe_step(const StepShape& shape, const StepCounts& counts, double step_s) {
  ++stats_.steps;
  stats_.step_seconds += step_s;
  stats_.last_step_ms = step_s * 1000;
  stats_.last_batch_tokens = shape.tokens;
  stats_.last_batch_sequences = counts.sequences;
  const auto tokens = static_cast<double>(shape.tokens);
  stats_.step_tokens.observe(tokens);
  const auto sequences = static_cast<double>(counts.sequences);
  if (shape.tokens == counts.sequences + counts.drafted)  // accepted drafts are steps that are saved
    average_in(stats_.decode_step_us,
        step_s * 1e6 * sequences / (sequences + static_cast<double>(counts.accepted)), kNewestWeight);
  else if (shape.tokens >= 2 * counts.sequences)  // most of it is prompts
    average_in(stats_.prefill_us_per_token, step_s * 1e6 / tokens,
        kNewestWeight * std::min(1.0, tokens / kWholeChunk));
  const double rate =
      (tokens - static_cast<double>(counts.drafted - counts.accepted)) / std::max(step_s, 1e-6);
  const double weight = stats_.steps == 1 ? 1 : 1 - std::exp(-step_s / kRateMemory_s);
  stats_.drain_tokens_per_s += weight * (rate - stats_.drain_tokens_per_s);
}

}  // namespace cheetah
