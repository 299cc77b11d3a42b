// SPDX-License-Identifier: MIT
#include "kernels/sample/row_sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace cheetah {
namespace {

const std::vector<float> kLogits = {0.f, 3.f, 2.f, 1.f, -1.f};

// The token after `tokens`, of which the last `row.num_generated` were generated.
SampledToken run_one(SampleRow row, std::vector<int32_t> tokens = {0}) {
  ThreadPool threads({.num_threads = 1});
  RowSampler sampler(1);
  row.logits = 0;
  row.history = std::span(tokens).first(tokens.size() - 1);
  SampledToken sampled;
  sampler.run(
      {.rows = {&row, 1}, .logits = kLogits, .last_tokens = {&tokens.back(), 1}, .sampled = {&sampled, 1}},
      threads);
  return sampled;
}

TEST(RowSampler, TakesTheBestTokenAtTemperatureZero) { EXPECT_EQ(run_one({}).token.id, 1); }

TEST(RowSampler, BiasAllowedIdsAndMaskDecideWhatMayCome) {
  SampleRow row;
  const std::vector<std::pair<int32_t, float>> bias = {{4, 10.f}, {1000000, 5.f}, {-1, 5.f}};
  row.logit_bias = bias;
  EXPECT_EQ(run_one(row).token.id, 4);
  row.logit_bias = {};
  const std::vector<int32_t> allowed = {0, 3};
  row.allowed_ids = allowed;
  EXPECT_EQ(run_one(row).token.id, 3);
  row.allowed_ids = {};
  const uint64_t mask = 0b10001;
  row.mask = {&mask, 1};
  EXPECT_EQ(run_one(row).token.id, 0);
  const uint64_t nothing = 0;
  row.mask = {&nothing, 1};
  EXPECT_TRUE(run_one(row).impossible);
}

TEST(RowSampler, AForbiddenTokenDoesNotCome) {
  SampleRow row;
  const int32_t end = 1;
  row.forbidden_ids = {&end, 1};
  EXPECT_EQ(run_one(row).token.id, 2);
}

TEST(RowSampler, RepetitionCountsThePromptFrequencyOnlyTheOutput) {
  SampleRow row;
  row.sampling.repetition_penalty = 2.f;
  EXPECT_EQ(run_one(row, {1}).token.id, 2) << "3 / 2 is below 2";
  EXPECT_EQ(run_one(row, {1, 0}).token.id, 2);
  row.sampling.repetition_penalty = 1.f;
  row.sampling.frequency_penalty = 0.6f;
  EXPECT_EQ(run_one(row, {1, 1, 1}).token.id, 1) << "the prompt does not count";
  row.num_generated = 1;
  EXPECT_EQ(run_one(row, {1, 1, 1}).token.id, 1);
  row.num_generated = 2;
  EXPECT_EQ(run_one(row, {1, 1, 1}).token.id, 2);
}

TEST(RowSampler, LogprobsAreTheModelsOwn) {
  SampleRow row;
  row.top_logprobs = 2;
  const int32_t only = 4;
  row.allowed_ids = {&only, 1};
  const GeneratedToken token = run_one(row).token;
  double total = 0;
  for (const float logit : kLogits) total += std::exp(static_cast<double>(logit));
  EXPECT_EQ(token.id, 4);
  EXPECT_NEAR(token.logprob, -1 - std::log(total), 1e-6);
  ASSERT_EQ(token.top.size(), 2u);
  EXPECT_EQ(token.top[0].id, 1);
  EXPECT_EQ(token.top[1].id, 2);
  EXPECT_NEAR(token.top[0].logprob, 3 - std::log(total), 1e-6);
}

TEST(RowSampler, ADrawDependsOnItsNumberAlone) {
  SampleRow row;
  row.sampling.temperature = 2.f;
  std::set<int32_t> seen;
  for (int i = 0; i < 40; ++i) {
    row.uniform = i / 40.0;
    const int32_t id = run_one(row).token.id;
    EXPECT_EQ(id, run_one(row, {2, 3}).token.id);
    seen.insert(id);
  }
  EXPECT_EQ(seen.size(), kLogits.size()) << "each token has its share of the numbers";
}

TEST(RowSampler, TypicalSamplingKeepsTheTokensOfTheExpectedSurprise) {
  SampleRow row;
  row.sampling.temperature = 1.f;
  row.typical_p = 0.1f;
  std::set<int32_t> seen;
  for (int i = 0; i < 50; ++i) {
    row.uniform = i / 50.0;
    seen.insert(run_one(row).token.id);
  }
  EXPECT_EQ(seen.size(), 1u);
}

TEST(RowSampler, ManyRowsOnManyThreadsGiveWhatEachGivesAlone) {
  ThreadPool threads({.num_threads = 2});
  RowSampler sampler(2);
  std::vector<float> logits;
  for (int i = 0; i < 3; ++i)
    for (const float logit : kLogits) logits.push_back(logit);
  const std::vector<int32_t> last = {0, 1, 2};
  std::vector<SampleRow> rows(30);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].logits = static_cast<int64_t>(i % 3);
    rows[i].sampling.temperature = 1.f;
    rows[i].sampling.repetition_penalty = 1.5f;
    rows[i].uniform = static_cast<double>(i) / 30;
  }
  std::vector<SampledToken> sampled(rows.size());
  sampler.run({.rows = rows, .logits = logits, .last_tokens = last, .sampled = sampled}, threads);
  for (size_t i = 0; i < rows.size(); ++i)
    EXPECT_EQ(sampled[i].token.id, run_one(rows[i], {last[i % 3]}).token.id);
}

}  // namespace
}  // namespace cheetah
