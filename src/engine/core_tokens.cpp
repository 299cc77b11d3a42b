// What comes out of a batch: tokens, text, events, and the end of choices and requests.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "engine/core.h"
#include "model/rope_scaling.h"

namespace cheetah {
namespace {

double seconds_between(EngineTime from, EngineTime to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

// Row i of the chunk says how likely prompt token i + 1 was; the first has nothing before it.
void EngineCore::collect_prompt_logprobs(const Work& work, std::span<const float> logits) {
  RequestState& request = *work.sequence->request;
  if (!request.request.prompt_logprobs || !request.needs_all_rows()) return;
  const std::vector<int32_t>& prompt = request.request.prompt;
  std::vector<GeneratedToken>& out = request.prompt_logprobs;
  if (out.empty()) out.push_back({.id = prompt.front(), .logprob = 0.f, .top = {}});
  const auto vocab = static_cast<size_t>(model_->traits().vocab);
  for (int64_t i = 0; i < work.prompt_count && std::ssize(out) < request.num_prompt(); ++i) {
    GeneratedToken token;
    fill_logprobs(logits.subspan(static_cast<size_t>(work.prompt_begin + i) * vocab, vocab),
                  prompt[out.size()], std::max(0, request.request.top_logprobs), token);
    out.push_back(std::move(token));
  }
}

void EngineCore::collect_hidden(const Work& work, std::span<const float> hidden) {
  RequestState& request = *work.sequence->request;
  if (!request.embeds()) return;
  const auto width = static_cast<size_t>(model_->traits().hidden);
  request.pooled.resize(width);
  for (int64_t i = 0; i < work.hidden_count; ++i) {
    const float* row = hidden.data() + static_cast<size_t>(work.hidden_begin + i) * width;
    for (size_t j = 0; j < width; ++j) request.pooled[j] += static_cast<double>(row[j]);
  }
  if (!work.completes) return;
  const double rows =
      request.request.pooling == Pooling::kMean ? static_cast<double>(request.num_prompt()) : 1;
  double divisor = rows;
  if (request.request.normalize) {
    double squares = 0;
    for (const double sum : request.pooled) squares += sum * sum;
    divisor = squares > 0 ? std::sqrt(squares) : 1;
  }
  request.embedding.clear();
  for (const double sum : request.pooled) request.embedding.push_back(static_cast<float>(sum / divisor));
}

// The other choices share all pages; whoever writes the last, partly filled one first gets a copy of it.
void EngineCore::fork(RequestState& request, EngineTime now) {
  const Sequence& first = *request.choices.front();
  for (int choice = 1; choice < request.request.best_of; ++choice) {
    start_sequence(request, choice);
    Sequence& sequence = *request.choices.back();
    sequence.computed = first.computed;
    sequence.submitted = first.submitted;
    sequence.lists = first.lists;
    sequence.copies_from = first.copies_from;
    sequence.long_factors = first.long_factors;
    sequence.status = SequenceStatus::kRunning;
    sequence.for_each_held_page([this](PageIndex page) { pool_.hold(page); });
    running_.push_back(&sequence);
  }
  note(DecisionKind::kForked, first, now, {.choice = request.request.best_of});
}

// One token, or the first of every choice.
void EngineCore::add_samples(const Work& work) {
  const GenerationRequest& request = work.sequence->request->request;
  SampleRow row = sample_of(*work.sequence);
  row.logits = work.logit_row;
  const auto index = static_cast<uint64_t>(work.sequence->num_generated + work.sequence->awaited);
  const int first = work.sequence->choice, count = work.forks ? request.best_of : 1;
  for (int choice = first; choice < first + count; ++choice) {
    // A token takes two numbers of the stream, so the place in it is a function of the token's index.
    row.uniform = Philox(request.seed, static_cast<uint64_t>(choice), 2 * index).next_uniform();
    samples_.push_back(row);
  }
}

SampleRow EngineCore::sample_of(Sequence& sequence) {
  const GenerationRequest& request = sequence.request->request;
  SampleRow row;
  row.sampling = request.sampling;
  row.history = std::span(sequence.tokens).first(static_cast<size_t>(sequence.length() - 1));
  row.num_generated = sequence.num_generated + sequence.awaited;
  row.typical_p = request.typical_p;
  row.logit_bias = request.logit_bias;
  row.allowed_ids = request.allowed_ids;
  if (row.num_generated < request.min_tokens) row.forbidden_ids = sequence.request->end_ids;
  row.top_logprobs = request.top_logprobs;
  if (request.best_of > request.n) row.top_logprobs = std::max(0, row.top_logprobs);  // they are compared
  if (sequence.grammar) {
    const auto begin = std::chrono::steady_clock::now();
    sequence.mask.resize((static_cast<size_t>(model_->traits().vocab) + 63) / 64);
    sequence.grammar->fill_mask(sequence.mask);
    stats_.mask_seconds += seconds_between(begin, std::chrono::steady_clock::now());
    row.mask = sequence.mask;
  }
  return row;
}

bool EngineCore::is_end(const Sequence& sequence, int32_t id) const {
  return std::ranges::find(sequence.request->end_ids, id) != sequence.request->end_ids.end();
}

void EngineCore::take_token(Sequence& sequence, SampledToken& sampled, EngineTime now) {
  if (sequence.request->request.max_tokens == 0) return finish(sequence, FinishReason::kLength, now);
  if (sampled.failed) throw Error("sampling failed");
  if (sampled.impossible)
    return finish(sequence, FinishReason::kError, now,
                  {ErrorKind::kBadRequest, "no token satisfies the request's constraints here"});
  observe_token(sequence, now);
  if (is_end(sequence, sampled.token.id)) return finish(sequence, FinishReason::kStop, now);
  if (sequence.grammar && !sequence.grammar->accept(sampled.token.id))
    return finish(sequence, FinishReason::kError, now,
                  {ErrorKind::kInternal, "the grammar does not accept a token its mask allowed"});
  append_token(sequence, std::move(sampled.token), now);
}

void EngineCore::append_token(Sequence& sequence, GeneratedToken&& token, EngineTime now) {
  sequence.tokens.push_back(token.id);
  ++sequence.num_generated;
  ++stats_.generated_tokens;
  sequence.logprob_sum += static_cast<double>(token.logprob);
  if (sequence.decoder) sequence.event.text += sequence.stop.push(sequence.decoder->push(token.id));
  sequence.event.tokens.push_back(std::move(token));
  if (end_after_token(sequence, now)) return;
  const int64_t before = std::ssize(sequence.tokens) - 1;
  if (rope_changes(model_->traits(), before, before + 1)) {
    std::erase(running_, &sequence);
    preempt(sequence, Preemption::kRecompute);
    note(DecisionKind::kTurned, sequence, now);
  }
  if (!sequence.request->holds_events()) send(sequence);
}

// True, and finished, where nothing can follow the last token.
bool EngineCore::end_after_token(Sequence& sequence, EngineTime now) {
  const auto end = [&](FinishReason reason, const RequestError& error = {}) {
    finish(sequence, reason, now, error);
    return true;
  };
  if (sequence.stop.stopped()) return end(FinishReason::kStop);
  if (sequence.num_generated >= sequence.request->request.max_tokens ||
      std::ssize(sequence.tokens) > config_.max_context)
    return end(FinishReason::kLength);
  if (!sequence.grammar || !sequence.grammar->is_dead_end()) return false;
  if (sequence.grammar->is_complete()) return end(FinishReason::kStop);
  return end(FinishReason::kError, {ErrorKind::kBadRequest, "the grammar allows no further token"});
}

void EngineCore::observe_token(Sequence& sequence, EngineTime now) {
  RequestTimes& times = sequence.request->times;
  if (times.first_token == EngineTime{}) {
    times.first_token = now;
    stats_.ttft_s.observe(seconds_between(times.arrived, now));
    stats_.prefill_s.observe(seconds_between(times.scheduled, now));
  } else if (sequence.last_token != EngineTime{}) {
    stats_.itl_s.observe(seconds_between(sequence.last_token, now));
  }
  sequence.last_token = now;
}

void EngineCore::finish(Sequence& sequence, FinishReason reason, EngineTime now, const RequestError& error) {
  if (sequence.status == SequenceStatus::kDone) return;
  RequestState& request = *sequence.request;
  publish(sequence);
  withdraw_promise(sequence);
  keep_in_cache(sequence);
  release_pages(sequence);
  sequence.swapped = {};
  sequence.swapped_pages = 0;
  sequence.status = SequenceStatus::kDone;
  any_finished_ = true;
  ++request.num_finished;
  note(DecisionKind::kFinished, sequence, now, {.finish = reason});
  sequence.event.error = error.why;
  sequence.event.error_kind = error.kind;
  close_event(sequence, reason, now);
  const bool last = request.num_finished == request.request.best_of;
  if (last) count_finished(request, reason);
  if (!request.holds_events()) {
    sequence.event.done = last;
    send(sequence);
  } else if (last) {
    send_best(request);
  }
}

void EngineCore::close_event(Sequence& sequence, FinishReason reason, EngineTime now) {
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
  event.embedding = request.embedding;
  event.prompt_logprobs = request.prompt_logprobs;
}

void EngineCore::send_best(RequestState& request) {
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
    send(sequence);
  }
}

void EngineCore::send(Sequence& sequence) {
  GenerationEvent next;
  next.request = sequence.event.request;
  next.choice = sequence.event.choice;
  outbox_.push_back({sequence.request, std::exchange(sequence.event, std::move(next))});
}

void EngineCore::finish_request(RequestState& request, FinishReason reason, EngineTime now,
                                const RequestError& error) {
  while (!request.forked()) start_sequence(request, static_cast<int>(request.choices.size()));
  for (const auto& choice : request.choices) finish(*choice, reason, now, error);
}

void EngineCore::count_finished(const RequestState& request, FinishReason reason) {
  uint64_t* const counters[] = {&stats_.finished_stop, &stats_.finished_length, &stats_.finished_cancelled,
                                &stats_.finished_deadline, &stats_.finished_error};
  ++*counters[static_cast<size_t>(reason)];
  int64_t generated = 0;
  for (const auto& choice : request.choices) generated += choice->num_generated;
  const RequestTimes& times = request.times;
  stats_.e2e_s.observe(seconds_between(times.arrived, times.finished));
  stats_.output_lengths.observe(static_cast<double>(generated));
  if (times.first_token == EngineTime{}) return;
  const double decode = seconds_between(times.first_token, times.finished);
  stats_.decode_s.observe(decode);
  const double per_choice = static_cast<double>(generated) / static_cast<double>(request.choices.size());
  if (per_choice > 1) stats_.tpot_s.observe(decode / (per_choice - 1));
}

}  // namespace cheetah
