// SPDX-License-Identifier: MIT
#include "engine/batch_runner.h"

#include <algorithm>
#include <iterator>

#include "engine/prompt_outputs.h"

namespace cheetah {

// What a request's own part of a step throws ends that request alone.
template <class Action>
void BatchRunner::guarded(Sequence& sequence, EngineTime now, const Action& action) {
  if (sequence.status == SequenceStatus::kDone) return;
  try {
    action();
  } catch (const std::exception& error) {
    with_.finisher.fail(*sequence.request, error, now);
  }
}

void BatchRunner::add(Sequence& sequence, int64_t count) {
  if (with_.pages.prepare(sequence, count)) batch_.add(sequence, count);
}

void BatchRunner::compute() {
  try {
    launch();
  } catch (const std::exception& error) {
    report(error, describe_failure(error.what(), with_.record.stats().steps, batch_.works()));
    if (!with_.flights.device_fault().empty()) throw;
    return compute_one_by_one(error.what());
  }
  if (with_.flights.full()) land();
}

// The batch failed as a whole: alone, each sequence either computes or is the one to blame.
void BatchRunner::compute_one_by_one(const std::string& why) {
  const std::vector<StepWork> failed = batch_.works();
  land_all();
  for (const StepWork& work : failed) {
    if (work.sequence->status != SequenceStatus::kRunning) continue;
    batch_.clear();
    try {
      add(*work.sequence, work.count);
      if (batch_.empty()) continue;
      launch();
    } catch (const std::exception& error) {
      if (error.what() != why)
        report(error, describe_failure(error.what(), with_.record.stats().steps, {work}));
      with_.finisher.fail(*work.sequence->request, error, with_.time.now());
      continue;
    }
    land();
  }
  with_.finisher.sweep();
}

// Here, once, the log learns what made a step fail: clients only hear that it did.
void BatchRunner::report(const std::exception& error, StepFailure failure) {
  ++num_failed_;
  ++with_.record.stats().failed_steps;
  failure.launches = with_.flights.launch_log();
  last_failure_ = std::move(failure);
  if (!with_.log.wants(LogLevel::kError)) return;
  std::vector<LogField> fields = failure_fields(error);
  fields.push_back({"requests", last_failure_.request_ids()});
  fields.push_back({"step", static_cast<int64_t>(last_failure_.step)});
  fields.push_back({"sequences", std::ssize(last_failure_.parts)});
  fields.push_back({"tokens", last_failure_.shape.tokens});
  if (!last_failure_.launches.empty()) fields.push_back({"launches", last_failure_.launches});
  with_.log.write(LogLevel::kError, "step_failed", fields);
}

StepFailure BatchRunner::describe_flights(std::string why) const {
  std::vector<StepWork> works = batch_.works();
  with_.flights.for_each(
      [&](const Flight& flight) { std::ranges::copy(flight.works, std::back_inserter(works)); });
  StepFailure failure = describe_failure(std::move(why), with_.record.stats().steps, works);
  failure.launches = with_.flights.launch_log();
  return failure;
}

// Throws without having changed anything when the runner does not take the batch.
void BatchRunner::launch() {
  const EngineTime now = with_.time.now();
  with_.record.stats().mask_seconds += batch_.complete(with_.pages.layout(), with_.traits, with_.time);
  Flight& flight = with_.flights.submit(batch_, now);
  int64_t sample = 0;
  for (const StepWork& work : flight.works) set_off(flight, work, sample, now);
}

// The sequence's state once its part of the step is on its way.
void BatchRunner::set_off(Flight& flight, const StepWork& work, int64_t& sample, EngineTime now) {
  RequestState& request = *work.sequence->request;
  const int64_t first = sample;
  sample += work.num_samples();
  guarded(*work.sequence, now, [&] {
    work.sequence->submitted = work.end;
    if (!work.samples()) return;
    if (work.forks) fork(request, now);
    if (work.drafted > 0) {
      ++work.sequence->awaited;
      return;
    }
    for (int64_t i = first; i < sample; ++i) {
      Sequence& owner = work.forks ? *request.choices[static_cast<size_t>(i - first)] : *work.sequence;
      flight.owners[static_cast<size_t>(i)] = &owner;
      owner.sample = i;
      ++owner.awaited;
    }
  });
}

// The other choices share all pages; the first to write the last, partly filled one gets a copy of it.
void BatchRunner::fork(RequestState& request, EngineTime now) {
  with_.requests.start_choices(request);
  const Sequence& first = *request.choices.front();
  for (const auto& choice : request.choices) {
    if (choice.get() == &first) continue;
    with_.pages.share(first, *choice);
    with_.requests.run_new(*choice);
  }
  with_.record.note(DecisionKind::kForked, first, now, {.choice = request.request.best_of});
}

// Waits for the oldest step and takes what it brings.
void BatchRunner::land() {
  const auto [flight, result] = [this] {
    try {
      return with_.flights.wait();
    } catch (const std::exception& error) {
      report(error, describe_flights(error.what()));
      throw;
    }
  }();
  num_failed_ = 0;
  const EngineTime now = with_.time.now();
  note_prefills(flight, now);
  const uint64_t accepted = with_.record.stats().drafts.accepted;
  commit(flight, result, now);
  const EngineTime end = with_.time.now();
  const double step_s = seconds(std::max(flight.begun, last_landing_), end);
  last_landing_ = end;
  with_.planner.observe(flight.shape, step_s);
  with_.record.observe_step(flight.shape,
      {.sequences = std::ssize(flight.works),
          .drafted = flight.num_drafted,
          .accepted = static_cast<int64_t>(with_.record.stats().drafts.accepted - accepted)},
      step_s);
  if (flight.only_decodes()) with_.speculator.observe_step(flight.shape.tokens, step_s);
  with_.flights.close(flight);
  with_.finisher.sweep();
}

// Decode steps are not noted: they follow from the steps of the first token and of the end.
void BatchRunner::note_prefills(const Flight& flight, EngineTime now) {
  for (const StepWork& work : flight.works) {
    const Sequence& sequence = *work.sequence;
    const bool decodes = work.count == 1 && work.end > sequence.request->num_prompt();
    if (decodes || sequence.status == SequenceStatus::kDone) continue;
    with_.record.note(DecisionKind::kPrefilled, sequence, now,
        {.chunk = work.count,
            .step_tokens = flight.shape.tokens,
            .step_sequences = std::ssize(flight.works),
            .step_s = seconds(std::max(flight.begun, last_landing_), now)});
  }
}

void BatchRunner::land_all() {
  while (!with_.flights.empty()) land();
}

void BatchRunner::commit(const Flight& flight, const StepResult& result, EngineTime now) {
  for (const StepWork& work : flight.works)
    guarded(*work.sequence, now, [&] { commit_work(work, result, now); });
  for (size_t i = 0; i < flight.owners.size(); ++i)
    if (Sequence* const owner = flight.owners[i])
      guarded(*owner, now, [&] {
        --owner->awaited;
        with_.finisher.take_token(*owner, result.sampled[i], now);
      });
  size_t first = 0;
  for (const StepWork& work : flight.works) {
    const auto sampled = result.sampled.subspan(first, static_cast<size_t>(work.num_samples()));
    first += sampled.size();
    if (work.drafted > 0) guarded(*work.sequence, now, [&] { take_verified(work, sampled, now); });
  }
}

// The model's choices, as long as each but the last is what was drafted: the next one was made behind it.
void BatchRunner::take_verified(const StepWork& work, std::span<SampledToken> sampled, EngineTime now) {
  Sequence& sequence = *work.sequence;
  --sequence.awaited;
  size_t accepted = 0;
  bool goes_on = true;
  for (size_t i = 0; i < sampled.size() && goes_on; ++i) {
    const bool was_drafted =
        i + 1 < sampled.size() && sampled[i].is_token() && sampled[i].token.id == sequence.draft.tokens[i];
    accepted += was_drafted;
    with_.finisher.take_token(sequence, sampled[i], now);
    goes_on = was_drafted && sequence.status == SequenceStatus::kRunning;
    if (goes_on) sequence.set_computed(sequence.computed + 1);
  }
  with_.speculator.observe(sequence, work.drafted, static_cast<int64_t>(accepted));
}

void BatchRunner::commit_work(const StepWork& work, const StepResult& result, EngineTime now) {
  Sequence& sequence = *work.sequence;
  sequence.computed = work.end - work.drafted;
  if (work.drafted > 0) sequence.submitted = sequence.computed;
  if (work.forks)
    for (const auto& choice : sequence.request->choices)
      if (choice->status == SequenceStatus::kRunning) {
        choice->computed = work.end;
        if (choice.get() != &sequence) with_.pages.drop_unseen(*choice);
      }
  with_.pages.publish(sequence);
  if (with_.exports.any()) with_.exports.advance(sequence);
  with_.pages.drop_unseen(sequence);
  collect_prompt_logprobs(work, result.logits, with_.traits.vocab);
  collect_hidden(work, result.hidden, with_.traits.hidden);
  if (work.completes && sequence.request->embeds()) with_.finisher.take_embedding(sequence, now);
}

}  // namespace cheetah
