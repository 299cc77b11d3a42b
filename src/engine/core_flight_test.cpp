// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/ahead_driver.h"
#include "engine/grammar/model_vocabulary.h"

namespace cheetah {
namespace {

void expect_no_page_leaked(const CoreDriver& driver) {
  const EngineStats stats = driver.core.stats();
  EXPECT_EQ(stats.pages_free + stats.pages_cached, stats.pages_total);
}

std::shared_ptr<const GrammarProgram> numbers_grammar() {
  static const auto program = GrammarProgram::from_regex(
      "(yes|no), [0-9]{3}", make_model_vocabulary(*small_model()->tokenizer(), small_model()->traits().vocab,
                                small_model()->traits().eos_ids));
  return program;
}

// One request of every kind there is, many times over, with shared beginnings.
GenerationRequest request_number(int i, bool with_grammars) {
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

void expect_equal(const Received& got, const Received& expected, int request) {
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

class AheadTest : public testing::TestWithParam<std::tuple<Preemption, bool, int64_t>> {};

TEST_P(AheadTest, MixedRequestsGetTheTokensOfOneStepAtATime) {
  const auto [preemption, with_grammars, num_pages] = GetParam();
  EngineConfig config = small_config(num_pages, *small_model());
  config.max_context = 120;
  config.preemption = preemption;
  CoreDriver plain(config);
  AheadDriver ahead(config);
  constexpr int kRequests = 60;
  std::vector<RequestId> plain_ids, ahead_ids;
  for (int i = 0; i < kRequests; ++i) {
    plain_ids.push_back(plain.submit(request_number(i, with_grammars)));
    ahead_ids.push_back(ahead.submit(request_number(i, with_grammars)));
    for (int k = 0; k < i % 4; ++k) ahead.step();
  }
  plain.run();
  ahead.run();
  for (size_t i = 0; i < plain_ids.size(); ++i)
    expect_equal(ahead.received[ahead_ids[i]], plain.received[plain_ids[i]], static_cast<int>(i));
  EXPECT_GT(ahead.runner->num_fed, 0);
  expect_no_page_leaked(ahead);
}

INSTANTIATE_TEST_SUITE_P(Loads, AheadTest,
    testing::Values(std::tuple(Preemption::kRecompute, false, 200),
        std::tuple(Preemption::kRecompute, false, 20), std::tuple(Preemption::kRecompute, true, 20),
        std::tuple(Preemption::kSwap, true, 20)));

TEST(EngineAhead, EveryTokenButTheFirstOfAStreamIsFedOnTheDevice) {
  AheadDriver driver(small_config(64, *small_model()));
  GenerationRequest request;
  request.prompt = random_prompt(20, 1);
  request.max_tokens = 30;
  request.ignore_eos = true;
  EXPECT_EQ(driver.generate(request).choices.at(0).tokens.size(), 30u);
  EXPECT_EQ(driver.runner->num_fed, 29);
  EXPECT_EQ(driver.core.stats().graphs.launched, driver.runner->graphs.launched);
  expect_no_page_leaked(driver);
}

TEST(EngineAhead, CancellationsAtAnyMomentKeepWhatCameAndLeakNothing) {
  const EngineConfig config = small_config(40, *small_model());
  CoreDriver plain(config);
  AheadDriver ahead(config);
  Philox random(5);
  std::vector<RequestId> ids, expected;
  for (int i = 0; i < 120; ++i) {
    expected.push_back(plain.submit(request_number(i, false)));
    ids.push_back(ahead.submit(request_number(i, false)));
    const uint32_t steps = random.next_u32() % 4;
    for (uint32_t k = 0; k < steps; ++k) ahead.step();
    if (random.next_u32() % 2 == 0) ahead.cancel(ids[random.next_u32() % ids.size()]);
  }
  plain.run();
  ahead.run();
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_TRUE(ahead.received[ids[i]].done);
    if (request_number(static_cast<int>(i), false).best_of > 1) continue;  // they may end in another order
    const auto& got = ahead.received[ids[i]].choices.at(0).tokens;
    const auto& whole = plain.received[expected[i]].choices.at(0).tokens;
    ASSERT_LE(got.size(), whole.size());
    EXPECT_TRUE(std::equal(got.begin(), got.end(), whole.begin())) << i;
  }
  expect_no_page_leaked(ahead);
}

TEST(EngineAhead, ABatchThatCannotBeIsComputedOneByOne) {
  const EngineConfig config = small_config(64, *small_model());
  CoreDriver plain(config);
  AheadDriver ahead(config);
  std::vector<RequestId> ids, expected;
  for (int i = 1; i < 5; ++i) {
    expected.push_back(plain.submit(request_number(i, false)));
    ids.push_back(ahead.submit(request_number(i, false)));
  }
  plain.run();
  for (int i = 0; i < 6; ++i) ahead.step();
  ahead.runner->fails_at = 1;
  ahead.run();
  for (size_t i = 0; i < ids.size(); ++i)
    expect_equal(ahead.received[ids[i]], plain.received[expected[i]], static_cast<int>(i));
  expect_no_page_leaked(ahead);
}

TEST(EngineAhead, ALostDeviceEndsEveryRequestWithAnError) {
  AheadDriver driver(small_config(64, *small_model()));
  std::vector<RequestId> ids;
  for (int i = 1; i < 5; ++i) {
    GenerationRequest request = request_number(i, false);
    request.max_tokens = 50;
    ids.push_back(driver.submit(std::move(request)));
  }
  for (int i = 0; i < 6; ++i) driver.step();
  driver.runner->loses_device = true;
  driver.run();
  for (const RequestId id : ids) EXPECT_EQ(driver.received[id].error_kind, ErrorKind::kInternal);
  expect_no_page_leaked(driver);
}

}  // namespace
}  // namespace cheetah
