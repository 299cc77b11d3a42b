// SPDX-License-Identifier: MIT
#include "model/generation.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/error.h"
#include "base/format.h"
#include "base/random.h"
#include "kernels/sample/mirostat.h"
#include "kernels/sample/row_sampler.h"
#include "model/dry_breakers.h"
#include "model/rope_scaling.h"
#include "model/tokenizer/tokenizer.h"

namespace cheetah {
namespace {

// Long enough to fill the matrix products, short enough that an interrupt is answered soon.
constexpr int64_t kPrefillChunk = 512;

class Stopwatch {
 public:
  double lap() {  // seconds since the last lap
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(start_, now)).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void check_prompt(std::span<const int32_t> prompt, int64_t vocab, int64_t capacity) {
  if (prompt.empty()) throw Error("the prompt has no tokens");
  if (static_cast<int64_t>(prompt.size()) > capacity)
    throw Error(format("the prompt has {} tokens but the context holds {}", prompt.size(), capacity));
  for (const int32_t id : prompt)
    if (id < 0 || id >= vocab)
      throw Error(format("the prompt's token id {} is outside the model's vocabulary of {}", id, vocab));
}

// Chooses a sequence's tokens one by one, as the engine does for the request's first choice.
class TokenChoice {
 public:
  TokenChoice(const Tokenizer& tokenizer, const GenerationParams& params)
      : params_(params), mirostat_mu_(first_mirostat_mu(params.sampling)) {
    if (params.sampling.dry.is_on()) breakers_ = make_dry_breakers(tokenizer, params.dry_breakers);
  }

  // The token after `tokens`, of which the last num_generated_ were chosen here.
  int32_t next(std::span<const int32_t> tokens, std::span<const float> logits) {
    const auto place = 2 * static_cast<uint64_t>(num_generated_);
    SampleRow row;
    row.sampling = params_.sampling;
    row.typical_p = params_.typical_p;
    row.uniform = Philox(params_.seed, 0, place).next_uniform();
    row.xtc_uniform = Philox(params_.seed, xtc_stream(0), place).next_uniform();
    row.mirostat_mu = mirostat_mu_;
    row.history = tokens.first(tokens.size() - 1);
    row.num_generated = num_generated_;
    row.dry_breakers = breakers_.get();
    SampledToken sampled;
    RowSampler::sample_one(
        {.row = row, .logits = logits, .last_token = tokens.back(), .sampled = sampled}, scratch_);
    if (sampled.failed) throw Error("sampling failed: out of memory");
    mirostat_mu_ = sampled.mirostat_mu;
    ++num_generated_;
    return sampled.token.id;
  }

 private:
  const GenerationParams& params_;
  std::shared_ptr<const DryBreakers> breakers_;  // shared: as made; nullptr: none
  RowSampler::Scratch scratch_;
  float mirostat_mu_;
  int64_t num_generated_ = 0;
};

// The text side of a generation: decoder, stop texts, sink.
class TextOutput {
 public:
  TextOutput(const Tokenizer& tokenizer, const GenerationParams& params, const TextSink& sink)
      : decoder_(tokenizer, true), stop_(params.stops), sink_(sink) {}

  bool push(int32_t id) { return give(stop_.push(decoder_.push(id))); }
  void finish() {
    if (stop_.stopped()) return;
    std::string rest = stop_.push(decoder_.finish());
    if (!stop_.stopped()) rest += stop_.finish();
    give(rest);
  }
  bool stopped() const { return stop_.stopped(); }
  std::string take_text() { return std::move(text_); }

 private:
  bool give(const std::string& piece) {
    text_ += piece;
    return sink_(piece);
  }
  StreamDecoder decoder_;
  StopText stop_;
  const TextSink& sink_;
  std::string text_;
};

}  // namespace

CachedSequence::CachedSequence(const Model& model, Runner& runner, KvPool& pool)
    : traits_(model.traits()),
      runner_(runner),
      pool_(pool),
      capacity_(std::min(pool.num_pages() * pool.page_tokens(), model.traits().max_positions)),
      pages_(static_cast<size_t>(pool.num_pages())),
      logits_(static_cast<size_t>(model.traits().vocab)) {
  std::iota(pages_.begin(), pages_.end(), 0);
}

void CachedSequence::forward(std::span<const int32_t> chunk, bool want_logits) {
  const auto count = static_cast<int64_t>(chunk.size());
  const auto context = static_cast<int64_t>(tokens_.size()) + count;
  const AttentionSequence sequence{
      .pages = pages_, .context_tokens = context, .query_begin = 0, .query_count = count};
  const int64_t last = count - 1;
  const ForwardBatch batch{.tokens = chunk,
      .sequences = {&sequence, 1},
      .logit_rows = want_logits ? std::span(&last, 1) : std::span<const int64_t>()};
  runner_.forward(batch, pool_, want_logits ? std::span<float>(logits_) : std::span<float>());
  tokens_.insert(tokens_.end(), chunk.begin(), chunk.end());
}

std::span<const float> CachedSequence::extend_to(
    std::span<const int32_t> tokens, const std::function<bool()>& keep_going, int64_t* reused) {
  const auto before = std::ssize(tokens_), total = std::ssize(tokens);
  CHEETAH_ASSERT(total > 0 && total <= capacity_, "a prompt that does not fit");
  const bool turned = rope_changes(traits_, before, total) || rope_changes(traits_, total, before);
  const auto same = std::ranges::mismatch(tokens_, tokens).in1 - tokens_.begin();
  const int64_t kept = turned ? 0 : std::min<int64_t>(same, total - 1);  // the last is run for its logits
  tokens_.resize(static_cast<size_t>(kept));
  if (reused) *reused = kept;
  // A prompt past the length where longrope turns must be turned alike from its first token: in one piece.
  const int64_t chunk = rope_changes(traits_, 1, total) ? total : kPrefillChunk;
  for (int64_t at = kept; at < total; at += chunk) {
    if (!keep_going()) return {};
    const int64_t count = std::min(chunk, total - at);
    forward(tokens.subspan(static_cast<size_t>(at), static_cast<size_t>(count)), at + count == total);
  }
  return logits_;
}

std::span<const float> CachedSequence::append(int32_t token) {
  const auto before = std::ssize(tokens_);
  CHEETAH_ASSERT(before < capacity_, "a token beyond the context");
  if (!rope_changes(traits_, before, before + 1)) {
    forward({&token, 1}, true);
    return logits_;
  }
  std::vector<int32_t> all = std::exchange(tokens_, {});
  all.push_back(token);
  forward(all, true);
  return logits_;
}

StopText::StopText(std::vector<std::string> stops) : stops_(std::move(stops)) { std::erase(stops_, ""); }

std::string StopText::push(std::string_view piece) {
  if (stopped_) return "";
  held_ += piece;
  size_t cut = std::string::npos;
  for (const std::string& stop : stops_) cut = std::min(cut, held_.find(stop));
  if (cut != std::string::npos) {
    stopped_ = true;
    return held_.substr(0, cut);
  }
  size_t keep = 0;  // the longest end of held_ that begins a stop text
  for (const std::string& stop : stops_)
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length)
      if (held_.ends_with(std::string_view(stop).substr(0, length))) keep = length;
  std::string shown = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return shown;
}

std::string StopText::finish() { return stopped_ ? "" : std::exchange(held_, ""); }

std::string_view name_of(StopReason reason) {
  switch (reason) {
    case StopReason::kEnd:
      return "end";
    case StopReason::kStopText:
      return "stop";
    case StopReason::kMaxTokens:
      return "length";
    case StopReason::kContextFull:
      return "context";
    case StopReason::kInterrupted:
      break;
  }
  return "interrupted";
}

GenerationResult generate(const Model& model, CachedSequence& sequence, std::span<const int32_t> prompt,
    const GenerationParams& params, const TextSink& sink) {
  const ModelTraits& traits = model.traits();
  check_prompt(prompt, traits.vocab, sequence.capacity());
  GenerationResult result{.prompt_tokens = std::ssize(prompt)};
  TextOutput output(*model.tokenizer(), params, sink);
  TokenChoice choice(*model.tokenizer(), params);
  Stopwatch watch;
  auto logits = sequence.extend_to(
      prompt, [&] { return sink(""); }, &result.reused_tokens);
  result.prompt_seconds = watch.lap();
  const auto finish_reason = [&] {
    for (;;) {
      if (logits.empty()) return StopReason::kInterrupted;
      if (std::ssize(result.tokens) >= params.max_tokens) return StopReason::kMaxTokens;
      const int32_t token = choice.next(sequence.tokens(), logits);
      if (!params.ignore_end && std::ranges::find(traits.eos_ids, token) != traits.eos_ids.end())
        return StopReason::kEnd;
      result.tokens.push_back(token);
      const bool go_on = output.push(token);
      if (output.stopped()) return StopReason::kStopText;
      if (!go_on) return StopReason::kInterrupted;
      if (std::ssize(sequence.tokens()) >= sequence.capacity()) return StopReason::kContextFull;
      if (std::ssize(result.tokens) >= params.max_tokens) return StopReason::kMaxTokens;
      logits = sequence.append(token);
      ++result.decode_steps;
    }
  };
  result.reason = finish_reason();
  result.decode_seconds = watch.lap();
  output.finish();
  result.text = output.take_text();
  return result;
}

}  // namespace cheetah
