// SPDX-License-Identifier: MIT
#pragma once
// The fields of what enters and leaves an engine.
#include "cluster/wire/archive.h"
#include "cluster/wire/message.h"

namespace cheetah::cluster {

inline constexpr int kMaxChoices = 128;                 // of one request; the API allows no more
inline constexpr int64_t kMaxCount = int64_t{1} << 40;  // of tokens and the like
inline constexpr size_t kMaxStops = 1024;

template <class A, class M>
void token_ids(A& a, M& ids) {
  a.list(ids, kMaxListItems, 4, [&](auto& id) { a.number(id); });
}

template <class A, MaybeConst<SamplingParams> M>
void fields(A& a, M& m) {
  a.finite(m.temperature);
  a.number(m.top_k);
  a.finite(m.top_p);
  a.finite(m.min_p);
  a.finite(m.repetition_penalty);
  a.finite(m.frequency_penalty);
  a.finite(m.presence_penalty);
  if (a.version() < 5) return;
  a.finite(m.dry.multiplier);
  a.finite(m.dry.base);
  a.number(m.dry.allowed_length);
  a.number(m.dry.last_n);
  a.finite(m.top_n_sigma);
  a.finite(m.xtc_probability);
  a.finite(m.xtc_threshold);
  a.finite(m.dynatemp_range);
  a.finite(m.dynatemp_exponent);
  a.choice(m.mirostat, Mirostat::kSecond);
  a.finite(m.mirostat_tau);
  a.finite(m.mirostat_eta);
}

template <class A, MaybeConst<ReasoningBudget> M>
void fields(A& a, M& m) {
  a.between(m.tokens, int64_t{0}, kMaxCount);
  token_ids(a, m.open);
  token_ids(a, m.end);
  token_ids(a, m.closing);
  a.number(m.begins_open);
}

// Not `id`, which each engine gives, nor `deadline` and `grammar`, which Generate carries in another form.
template <class A, MaybeConst<GenerationRequest> M>
void fields(A& a, M& m) {
  token_ids(a, m.prompt);
  a.between(m.max_tokens, int64_t{0}, kMaxCount);
  a.between(m.min_tokens, int64_t{0}, kMaxCount);
  a.between(m.n, 1, kMaxChoices);
  a.between(m.best_of, 1, kMaxChoices);
  fields(a, m.sampling);
  a.finite(m.typical_p);
  if (a.version() >= 5) a.list(m.dry_breakers, kMaxStops, 4, [&](auto& text) { a.text(text); });
  a.list(m.logit_bias, kMaxListItems, 8, [&](auto& bias) {
    a.number(bias.first);
    a.number(bias.second);
    a.expect(!std::isnan(bias.second), "a bias is a number");
  });
  token_ids(a, m.allowed_ids);
  a.number(m.seed);
  maybe(a, m.top_logprobs, [&](auto& top) { a.between(top, 0, 1024); });
  a.number(m.prompt_logprobs);
  if (a.version() >= 5) maybe(a, m.top_prompt_logprobs, [&](auto& top) { a.between(top, 0, 1024); });
  if (a.version() >= 5) maybe(a, m.reasoning, [&](auto& reasoning) { fields(a, reasoning); });
  a.list(m.stop, kMaxStops, 4, [&](auto& stop) { a.text(stop); });
  token_ids(a, m.stop_ids);
  a.number(m.ignore_eos);
  a.number(m.include_stop_in_text);
  a.number(m.skip_special);
  a.choice(m.pooling, Pooling::kLast);
  a.number(m.normalize);
  a.number(m.priority);
  a.text(m.cache_salt);
  if (a.version() >= 5) token_ids(a, m.prediction);
}

template <class A, MaybeConst<GeneratedToken> M>
void fields(A& a, M& m) {
  a.number(m.id);
  a.number(m.logprob);
  a.list(m.top, 1024, 8, [&](auto& top) {
    a.number(top.id);
    a.number(top.logprob);
  });
}

// As offsets from `arrived`; what did not happen is 0.
template <class A, MaybeConst<RequestTimes> M>
void fields(A& a, M& m) {
  auto offset = [&](auto& time) {
    using std::chrono::duration_cast;
    Microseconds after{};
    if constexpr (!A::kReads)
      after = std::clamp(duration_cast<Microseconds>(time - m.arrived), Microseconds{}, kMaxSpan);
    a.span(after);
    if constexpr (A::kReads) time = EngineTime{} + after;
  };
  offset(m.scheduled);
  offset(m.first_token);
  offset(m.finished);
}

template <class A, MaybeConst<GenerationEvent> M>
void fields(A& a, M& m) {
  a.between(m.choice, 0, kMaxChoices - 1);
  a.list(m.tokens, kMaxListItems, 12, [&](auto& token) { fields(a, token); });
  a.text(m.text);
  if (a.version() >= 5) a.finite(m.mirostat_mu);
  maybe(a, m.finish, [&](auto& finish) { a.choice(finish, FinishReason::kError); });
  a.text(m.stop_string);
  a.text(m.error);
  a.choice(m.error_kind, ErrorKind::kInternal);
  a.number(m.done);
  a.between(m.prompt_tokens, int64_t{0}, kMaxCount);
  a.between(m.cached_tokens, int64_t{0}, kMaxCount);
  a.between(m.completion_tokens, int64_t{0}, kMaxCount);
  fields(a, m.times);
  a.list(m.embedding, kMaxListItems, 4, [&](auto& value) { a.number(value); });
  a.list(m.prompt_logprobs, kMaxListItems, 12, [&](auto& token) { fields(a, token); });
  if (a.version() < 5) return;
  a.between(m.accepted_drafts, int64_t{0}, kMaxCount);
  a.between(m.rejected_drafts, int64_t{0}, kMaxCount);
}

template <class A, MaybeConst<ResumedChoice> M>
void fields(A& a, M& m) {
  token_ids(a, m.tokens);
  a.number(m.finished);
  if (a.version() >= 5) a.finite(m.mirostat_mu);
}

template <class A, MaybeConst<GrammarSource> M>
void fields(A& a, M& m) {
  a.text(m.kind);
  a.text(m.text);
}

}  // namespace cheetah::cluster
