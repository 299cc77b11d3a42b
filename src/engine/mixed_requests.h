// SPDX-License-Identifier: MIT
#pragma once
// For tests: requests of every kind, and the same answer in all that a client sees.
#include "engine/core_fixture.h"
#include "engine/grammar/model_vocabulary.h"

namespace cheetah {

inline std::shared_ptr<const GrammarProgram> numbers_grammar() {
  static const auto program = GrammarProgram::from_regex(
      "(yes|no), [0-9]{3}", make_model_vocabulary(*small_model()->tokenizer(), small_model()->traits().vocab,
                                small_model()->traits().eos_ids));
  return program;
}

// One request of every kind there is, many times over, with shared beginnings.
inline GenerationRequest request_number(int i, bool with_grammars) {
  Philox random(static_cast<uint64_t>(i) + 1);
  GenerationRequest request;
  request.prompt = random_prompt(10 + random.next_u32() % 30, static_cast<uint64_t>(i % 4));
  const auto own = random_prompt(1 + random.next_u32() % 40, 100 + static_cast<uint64_t>(i));
  request.prompt.insert(request.prompt.end(), own.begin(), own.end());
  request.max_tokens = random.next_u32() % 24;
  request.ignore_eos = i % 3 != 0;
  request.seed = static_cast<uint64_t>(i);
  request.priority = i % 3;
  if (i % 2 == 0) request.sampling = {.temperature = 1.5f, .top_k = i % 4 == 0 ? 40 : 0, .top_p = 0.95f};
  if (i % 5 == 0) request.n = request.best_of = 2 + i % 3;
  if (i % 15 == 0) request.best_of = request.n + 1;
  if (i % 6 == 0) request.stop = {"the", " a"};
  if (i % 7 == 0) request.sampling.repetition_penalty = 1.3f;
  if (i % 8 == 0) request.sampling.frequency_penalty = 0.5f;
  if (i % 9 == 0) request.min_tokens = 4;
  if (i % 10 == 0) request.top_logprobs = 3;
  if (!with_grammars) return request;
  if (i % 11 == 0) request.grammar = numbers_grammar();
  if (i % 12 == 0) request.prompt_logprobs = true;
  if (i % 13 == 0) request.typical_p = 0.9f;
  if (i % 16 == 0) request.sampling.mirostat = Mirostat::kSecond;
  if (i % 17 == 0) request.sampling.dry = {.multiplier = 0.8f, .allowed_length = 1};
  if (i % 17 == 0) request.dry_breakers = {"\n"};
  if (i % 18 == 0) request.sampling.xtc_probability = 0.5f;
  if (i % 14 == 0) request.pooling = Pooling::kMean;
  return request;
}

inline void expect_equal(const Received& got, const Received& expected, int request) {
  EXPECT_TRUE(got.done) << request;
  EXPECT_EQ(got.error, expected.error) << request;
  EXPECT_EQ(got.embedding, expected.embedding) << request;
  ASSERT_EQ(got.choices.size(), expected.choices.size()) << request;
  for (const auto& [index, choice] : expected.choices) {
    const Received::Choice& other = got.choices.at(index);
    EXPECT_EQ(other.tokens, choice.tokens) << request << ", choice " << index;
    EXPECT_EQ(other.logprobs, choice.logprobs) << request;
    EXPECT_EQ(other.text, choice.text) << request;
    EXPECT_EQ(other.finish, choice.finish) << request;
    EXPECT_EQ(other.stop_string, choice.stop_string) << request;
  }
}

}  // namespace cheetah
