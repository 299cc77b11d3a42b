// SPDX-License-Identifier: MIT
#include "engine/finisher.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "model/rope_scaling.h"

namespace cheetah {

RequestError Finisher::error_of(const std::exception& error) {
  return {ErrorKind::kInternal, format("the engine failed at this request: {}", error.what())};
}

void Finisher::fail(RequestState& request, const std::exception& error, EngineTime now) {
  finish_request(request, FinishReason::kError, now, error_of(error));
}

void Finisher::fail_not_finite(Sequence& sequence, EngineTime now) {
  ++with_.record.stats().nonfinite_outputs;
  suspects_cache_ = true;
  finish_request(*sequence.request, FinishReason::kError, now,
      {ErrorKind::kInternal, "the model's output for this request is not finite"});
}

bool Finisher::is_end(const Sequence& sequence, int32_t id) {
  return std::ranges::find(sequence.request->end_ids, id) != sequence.request->end_ids.end();
}

void Finisher::take_token(Sequence& sequence, SampledToken& sampled, EngineTime now) {
  if (sampled.not_finite) return fail_not_finite(sequence, now);
  if (sequence.request->request.max_tokens == 0) return finish(sequence, FinishReason::kLength, now);
  if (sampled.failed) throw Error("sampling failed");
  if (sampled.impossible)
    return finish(sequence, FinishReason::kError, now,
        {ErrorKind::kBadRequest, "no token satisfies the request's constraints here"});
  with_.record.observe_token(sequence, now);
  if (is_end(sequence, sampled.token.id)) return finish(sequence, FinishReason::kStop, now);
  if (sequence.grammar && !sequence.grammar->accept(sampled.token.id))
    return finish(sequence, FinishReason::kError, now,
        {ErrorKind::kInternal, "the grammar does not accept a token its mask allowed"});
  sequence.rules.mirostat_mu = sequence.event.mirostat_mu = sampled.mirostat_mu;
  append_token(sequence, std::move(sampled.token), now);
}

void Finisher::append_token(Sequence& sequence, GeneratedToken&& token, EngineTime now) {
  sequence.tokens.push_back(token.id);
  if (sequence.rules.reasoning) sequence.rules.reasoning->push(token.id);
  ++sequence.num_generated;
  ++with_.record.stats().generated_tokens;
  sequence.logprob_sum += static_cast<double>(token.logprob);
  if (sequence.decoder) sequence.event.text += sequence.stop.push(sequence.decoder->push(token.id));
  sequence.event.tokens.push_back(std::move(token));
  sequence.event.made = now;
  if (end_after_token(sequence, now)) return;
  const int64_t before = std::ssize(sequence.tokens) - 1;
  if (rope_changes(with_.traits, before, before + 1)) {
    with_.pages.give_up(sequence, Preemption::kRecompute);
    with_.requests.requeue(sequence);
    with_.record.note(DecisionKind::kTurned, sequence, now);
  }
  if (!sequence.request->holds_events()) with_.outbox.send(sequence);
}

// True, and finished, where nothing can follow the last token.
bool Finisher::end_after_token(Sequence& sequence, EngineTime now) {
  const auto end = [&](FinishReason reason, const RequestError& error = {}) {
    finish(sequence, reason, now, error);
    return true;
  };
  if (sequence.stop.stopped()) return end(FinishReason::kStop);
  if (sequence.num_generated >= sequence.request->request.max_tokens ||
      std::ssize(sequence.tokens) > with_.config.max_context)
    return end(FinishReason::kLength);
  if (!sequence.grammar || !sequence.grammar->is_dead_end()) return false;
  if (sequence.grammar->is_complete()) return end(FinishReason::kStop);
  return end(FinishReason::kError, {ErrorKind::kBadRequest, "the grammar allows no further token"});
}

void Finisher::take_embedding(Sequence& sequence, EngineTime now) {
  const auto& embedding = sequence.request->embedding;
  if (!std::ranges::all_of(embedding, [](float value) { return std::isfinite(value); })) {
    sequence.request->embedding.clear();
    return fail_not_finite(sequence, now);
  }
  finish(sequence, FinishReason::kStop, now);
}

// Everything that a token leaves behind is a function of the tokens so far: the place in the random stream, the
// penalties, the grammar, the text held back. So the choices start where preempted ones would.
void Finisher::resume(RequestState& request, EngineTime now) {
  with_.requests.start_choices(request);
  for (const auto& choice : request.choices) {
    const ResumedChoice& before = request.request.resume[static_cast<size_t>(choice->choice)];
    if (!before.finished) continue;
    choice->num_generated = choice->num_resumed = std::ssize(before.tokens);
    choice->status = SequenceStatus::kDone;
    ++request.num_finished;
  }
  for (const auto& choice : request.choices) {
    if (choice->status == SequenceStatus::kDone) continue;
    const ResumedChoice& before = request.request.resume[static_cast<size_t>(choice->choice)];
    if (!before.tokens.empty()) choice->rules.mirostat_mu = before.mirostat_mu;
    replay(*choice, before, now);
    if (choice->status != SequenceStatus::kDone) with_.requests.enqueue(*choice);
  }
}

// Of what the receiver has, nothing is sent but the end, where the tokens lead to it.
void Finisher::replay(Sequence& sequence, const ResumedChoice& before, EngineTime now) {
  const int64_t told = before.told.value_or(std::ssize(before.tokens));
  for (const int32_t id : before.tokens) {
    if (sequence.status == SequenceStatus::kDone) return;
    if (is_end(sequence, id) || (sequence.grammar && !sequence.grammar->accept(id)))
      return finish(sequence, FinishReason::kError, now,
          {ErrorKind::kBadRequest, "the resumed tokens are none that this request could have generated"});
    const bool again = sequence.num_generated >= told;
    sequence.tokens.push_back(id);
    if (sequence.rules.reasoning) sequence.rules.reasoning->push(id);
    sequence.num_resumed = ++sequence.num_generated;
    const std::string text = sequence.decoder ? sequence.stop.push(sequence.decoder->push(id)) : "";
    if (again) {
      sequence.event.text += text;
      sequence.event.tokens.emplace_back().id = id;
    }
    if (!end_after_token(sequence, now) && again) with_.outbox.send(sequence);
  }
}

void Finisher::finish(Sequence& sequence, FinishReason reason, EngineTime now, const RequestError& error) {
  if (sequence.status == SequenceStatus::kDone) return;
  RequestState& request = *sequence.request;
  with_.pages.finish(sequence, with_.flights.parking());
  sequence.status = SequenceStatus::kDone;
  with_.requests.note_done();
  ++request.num_finished;
  with_.record.note(DecisionKind::kFinished, sequence, now, {.finish = reason});
  sequence.event.error = error.why;
  sequence.event.error_kind = error.kind;
  close_event(sequence, reason, now);
  const bool last = request.num_finished == request.request.best_of;
  if (last) with_.record.observe_finished(request, reason);
  if (!request.holds_events()) {
    sequence.event.done = last;
    with_.outbox.send(sequence);
  } else if (last) {
    send_best(request);
  }
}

void Finisher::close_event(Sequence& sequence, FinishReason reason, EngineTime now) {
  RequestState& request = *sequence.request;
  GenerationEvent& event = sequence.event;
  if (sequence.decoder && !sequence.stop.stopped()) {
    event.text += sequence.stop.push(sequence.decoder->finish());
    event.text += sequence.stop.finish();
  }
  // A stop string may be complete only with the last bytes.
  event.finish = sequence.stop.stopped() && reason == FinishReason::kLength ? FinishReason::kStop : reason;
  event.stop_string = sequence.stop.matched();
  request.times.finished = now;
  event.times = request.times;
  event.prompt_tokens = request.num_prompt();
  event.cached_tokens = request.cached_tokens;
  event.completion_tokens = sequence.num_generated;
  event.accepted_drafts = sequence.draft.num_accepted;
  event.rejected_drafts = sequence.draft.num_rejected;
  event.embedding = request.embedding;
  event.prompt_logprobs = request.prompt_logprobs;
}

void Finisher::send_best(RequestState& request) {
  std::vector<Sequence*> order;
  for (const auto& choice : request.choices) order.push_back(choice.get());
  const auto mean = [](const Sequence* s) {
    return s->num_generated == 0 ? -HUGE_VAL : s->logprob_sum / static_cast<double>(s->num_generated);
  };
  std::ranges::stable_sort(order, [&](const Sequence* a, const Sequence* b) { return mean(a) > mean(b); });
  for (int i = 0; i < request.request.n; ++i) {
    Sequence& sequence = *order[static_cast<size_t>(i)];
    sequence.event.choice = i;
    sequence.event.done = i + 1 == request.request.n;
    with_.outbox.send(sequence);
  }
}

void Finisher::finish_request(
    RequestState& request, FinishReason reason, EngineTime now, const RequestError& error) {
  with_.requests.start_choices(request);
  for (const auto& choice : request.choices) finish(*choice, reason, now, error);
}

void Finisher::finish_all(FinishReason reason, EngineTime now, const RequestError& error) {
  for (const auto& [id, request] : with_.requests.all()) finish_request(*request, reason, now, error);
  sweep();
}

void Finisher::expire(EngineTime now) {
  for (const auto& [id, request] : with_.requests.all())
    if (request->request.deadline && *request->request.deadline <= now)
      finish_request(*request, FinishReason::kDeadline, now);
  sweep();
}

void Finisher::sweep() {
  with_.requests.take_finished([this](std::unique_ptr<RequestState> request) {
    with_.imports.unpin(request->request.id);
    with_.exports.end(request->request.id, "the request ended before its prompt was computed");
    with_.outbox.keep(std::move(request));
  });
}

}  // namespace cheetah
