// SPDX-License-Identifier: MIT
#pragma once
// One sequence from prompt to last token on one runner: the plain loop behind `generate` and `chat`.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/sample/sample.h"
#include "model/model.h"

namespace cheetah {

// A sequence and its keys and values, which take the whole pool. Owns the token list; one thread. The cache
// always holds exactly tokens(), so a later prompt that begins the same way only pays for what is new.
class CachedSequence {
 public:
  // All three must outlive it.
  CachedSequence(const Model& model, Runner& runner, KvPool& pool);

  int64_t capacity() const { return capacity_; }
  const std::vector<int32_t>& tokens() const { return tokens_; }

  // Makes the cache hold `tokens` (at least one, at most capacity()) and computes the logits after the last.
  // Asks keep_going between chunks; false leaves a shorter, valid cache and returns an empty span. The
  // logits live until the next call. Returns how many tokens were already there through `reused`.
  std::span<const float> extend_to(
      std::span<const int32_t> tokens, const std::function<bool()>& keep_going, int64_t* reused = nullptr);
  // Adds one token; the logits after it.
  std::span<const float> append(int32_t token);

 private:
  void forward(std::span<const int32_t> chunk, bool want_logits);
  const ModelTraits& traits_;
  Runner& runner_;
  KvPool& pool_;
  int64_t capacity_;
  std::vector<int32_t> pages_;
  std::vector<int32_t> tokens_;
  std::vector<float> logits_;  // [vocab] f32
};

// Cuts text at the first of several stop strings, holding back what may still become one.
class StopText {
 public:
  explicit StopText(std::vector<std::string> stops);
  std::string push(std::string_view piece);  // what can be shown now
  std::string finish();                      // what was held back, when no stop came
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;  // none empty
  std::string held_;
  bool stopped_ = false;
};

enum class StopReason { kEnd, kStopText, kMaxTokens, kContextFull, kInterrupted };
std::string_view name_of(StopReason reason);

struct GenerationParams {
  int64_t max_tokens = 256;
  SamplingParams sampling = {};
  float typical_p = 1.f;
  std::vector<std::string> dry_breakers = {};
  uint64_t seed = 0;
  bool ignore_end = false;              // go on past the model's end tokens
  std::vector<std::string> stops = {};  // end before the first of these texts
};

struct GenerationResult {
  std::vector<int32_t> tokens = {};  // without the end token
  std::string text = {};
  StopReason reason = StopReason::kEnd;
  int64_t prompt_tokens = 0;
  int64_t reused_tokens = 0;  // of the prompt, found in the cache
  int64_t decode_steps = 0;
  double prompt_seconds = 0;
  double decode_seconds = 0;
};

// Shows each piece of text as it becomes whole (also called with "" to ask); false stops the generation.
using TextSink = std::function<bool(std::string_view piece)>;

// Throws Error when the prompt is empty, has an id outside the vocabulary or does not fit.
GenerationResult generate(const Model& model, CachedSequence& sequence, std::span<const int32_t> prompt,
    const GenerationParams& params, const TextSink& sink);

}  // namespace cheetah
