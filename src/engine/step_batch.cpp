// SPDX-License-Identifier: MIT
#include "engine/step_batch.h"

#include <algorithm>

#include "base/random.h"

namespace cheetah {
namespace {

// The choice that follows `text` and one more token; `ahead` of the tokens before it are drafted.
SampleRow sample_of(const Sequence& sequence, std::span<const int32_t> text, int64_t ahead) {
  const RequestState& state = *sequence.request;
  const GenerationRequest& request = state.request;
  SampleRow row;
  row.sampling = request.sampling;
  row.history = text;
  row.num_generated = sequence.num_generated + sequence.awaited + ahead;
  row.typical_p = request.typical_p;
  row.mirostat_mu = sequence.rules.mirostat_mu;
  row.dry_breakers = state.dry_breakers.get();
  row.logit_bias = request.logit_bias;
  row.allowed_ids = request.allowed_ids;
  const auto forced =
      sequence.rules.reasoning ? sequence.rules.reasoning->forced() : std::span<const int32_t>();
  if (!forced.empty()) row.allowed_ids = forced;
  if (forced.empty() && row.num_generated < request.min_tokens) row.forbidden_ids = state.end_ids;
  row.top_logprobs = request.top_logprobs;
  if (state.holds_events()) row.top_logprobs = request.top_logprobs.value_or(0);  // choices are compared
  return row;
}

// A token takes two numbers of the stream, so the place in it is a function of the token's index.
void draw(SampleRow& row, const GenerationRequest& request, int choice, int64_t index) {
  const auto stream = static_cast<uint64_t>(choice);
  const uint64_t place = 2 * static_cast<uint64_t>(index);
  row.uniform = Philox(request.seed, stream, place).next_uniform();
  row.xtc_uniform = Philox(request.seed, xtc_stream(stream), place).next_uniform();
}

// What may come next, and what after each of the drafted tokens, which the grammar accepts. Returns the seconds spent.
double fill_masks(
    Sequence& sequence, std::span<const int32_t> drafted, int64_t vocab, const TimeSource& time) {
  const EngineTime begin = time.now();
  GrammarState state = *sequence.grammar;
  const size_t words = (static_cast<size_t>(vocab) + 63) / 64;
  sequence.rules.masks.resize((drafted.size() + 1) * words);
  for (size_t ahead = 0; ahead <= drafted.size(); ++ahead) {
    state.fill_mask(std::span(sequence.rules.masks).subspan(ahead * words, words));
    if (ahead < drafted.size()) state.accept(drafted[ahead]);
  }
  return seconds(begin, time.now());
}

}  // namespace

void StepBatch::clear() {
  works_.clear();
  tokens_.clear();
  fed_.clear();
  sequences_.clear();
  further_groups_.clear();
  logit_rows_.clear();
  hidden_rows_.clear();
  host_logits_.clear();
  samples_.clear();
  shape_ = {};
}

void StepBatch::add(Sequence& sequence, int64_t count) {
  const RequestState& request = *sequence.request;
  const auto row = std::ssize(tokens_);
  const int64_t from = sequence.submitted, end = from + count;
  StepWork work{.sequence = &sequence,
      .count = count,
      .end = end,
      .completes = end >= sequence.length(),
      .drafted = std::max<int64_t>(0, end - sequence.length()),
      .prompt_begin = std::ssize(host_logits_),
      .hidden_begin = std::ssize(hidden_rows_)};
  work.forks = work.completes && !request.forked();
  if (request.request.prompt_logprobs && request.needs_all_rows())
    for (int64_t p = from; p < std::min(end, request.num_prompt() - 1); ++p) {
      host_logits_.push_back(std::ssize(logit_rows_));
      logit_rows_.push_back(row + p - from);
    }
  work.logit_row = std::ssize(logit_rows_);
  if (work.samples())
    for (int64_t i = count - 1 - work.drafted; i < count; ++i) logit_rows_.push_back(row + i);
  if (request.request.pooling == Pooling::kMean)
    for (int64_t i = 0; i < count; ++i) hidden_rows_.push_back(row + i);
  if (request.request.pooling == Pooling::kLast && work.completes) hidden_rows_.push_back(row + count - 1);
  work.prompt_count = std::ssize(host_logits_) - work.prompt_begin;
  work.hidden_count = std::ssize(hidden_rows_) - work.hidden_begin;
  add_tokens(sequence, end - work.drafted);
  const auto draft = sequence.draft.tokens.begin();
  tokens_.insert(tokens_.end(), draft, draft + work.drafted);
  sequences_.push_back({.pages = sequence.lists.front().pages,
      .context_tokens = end,
      .query_begin = row,
      .query_count = count});
  shape_.add(count, from);
  works_.push_back(work);
}

// Up to `end`. The last may be one that the step in flight chooses.
void StepBatch::add_tokens(const Sequence& sequence, int64_t end) {
  const int64_t known = std::min(end, std::ssize(sequence.tokens));
  tokens_.insert(
      tokens_.end(), sequence.tokens.begin() + sequence.submitted, sequence.tokens.begin() + known);
  if (known == end) return;
  fed_.push_back({.row = std::ssize(tokens_), .sample = sequence.sample});
  tokens_.push_back(0);
}

double StepBatch::complete(const KvLayout& layout, const ModelTraits& traits, const TimeSource& time) {
  double mask_s = 0;
  for (const StepWork& work : works_)
    if (work.samples())
      mask_s +=
          work.drafted > 0 ? add_verified(work, traits.vocab, time) : add_samples(work, traits.vocab, time);
  for (size_t group = 1; group < layout.windows.size(); ++group)
    for (size_t i = 0; i < works_.size(); ++i) {
      further_groups_.push_back(sequences_[i]);
      further_groups_.back().pages = works_[i].sequence->lists[group].pages;
    }
  return mask_s;
}

// One token, or the first of every choice.
double StepBatch::add_samples(const StepWork& work, int64_t vocab, const TimeSource& time) {
  Sequence& sequence = *work.sequence;
  const GenerationRequest& request = sequence.request->request;
  const auto known = std::span(sequence.tokens).first(static_cast<size_t>(sequence.length() - 1));
  SampleRow row = sample_of(sequence, known, 0);
  row.logits = work.logit_row;
  double mask_s = 0;
  if (sequence.grammar) {
    const EngineTime begin = time.now();
    sequence.rules.masks.resize((static_cast<size_t>(vocab) + 63) / 64);
    sequence.grammar->fill_mask(sequence.rules.masks);
    mask_s = seconds(begin, time.now());
    row.mask = sequence.rules.masks;
  }
  const int64_t index = sequence.num_generated + sequence.awaited;
  const int first = sequence.choice, count = work.forks ? request.best_of : 1;
  for (int choice = first; choice < first + count; ++choice) {
    draw(row, request, choice, index);
    samples_.push_back(row);
  }
  return mask_s;
}

// A choice after the last token and after each drafted one, each as it would be made if the draft were right so far.
double StepBatch::add_verified(const StepWork& work, int64_t vocab, const TimeSource& time) {
  Sequence& sequence = *work.sequence;
  Draft& draft = sequence.draft;
  const auto drafted = std::span(draft.tokens).first(static_cast<size_t>(work.drafted));
  draft.text.assign(sequence.tokens.begin(), sequence.tokens.end());
  draft.text.insert(draft.text.end(), drafted.begin(), drafted.end());
  const double mask_s = sequence.grammar ? fill_masks(sequence, drafted, vocab, time) : 0;
  const size_t words = sequence.rules.masks.size() / (drafted.size() + 1);
  for (size_t ahead = 0; ahead <= drafted.size(); ++ahead) {
    const auto place = static_cast<int64_t>(ahead);
    const auto text = std::span(draft.text).first(sequence.tokens.size() - 1 + ahead);
    SampleRow row = sample_of(sequence, text, place);
    row.logits = work.logit_row + place;
    if (sequence.grammar) row.mask = std::span(sequence.rules.masks).subspan(ahead * words, words);
    draw(row, sequence.request->request, sequence.choice, sequence.num_generated + place);
    samples_.push_back(row);
  }
  return mask_s;
}

ForwardBatch StepBatch::forward() const {
  return {.tokens = tokens_,
      .sequences = sequences_,
      .further_groups = further_groups_,
      .logit_rows = logit_rows_,
      .hidden_rows = hidden_rows_};
}

StepExtras StepBatch::extras() const {
  return {.fed = fed_, .samples = samples_, .host_logits = host_logits_};
}

}  // namespace cheetah
