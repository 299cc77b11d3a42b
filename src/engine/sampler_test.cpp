#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace cheetah {
namespace {

const std::vector<float> kLogits = {0.f, 3.f, 2.f, 1.f, -1.f};

SampleJob run_one(const GenerationRequest& request, std::vector<int32_t> history = {}, int64_t generated = 0,
                  std::span<const uint64_t> mask = {}, std::span<const int32_t> end_ids = {},
                  int choice = 0) {
  ThreadPool threads({.num_threads = 1});
  Sampler sampler(1);
  SampleJob job;
  job.logits = kLogits;
  job.request = &request;
  job.history = history;
  job.num_generated = generated;
  job.mask = mask;
  job.end_ids = end_ids;
  job.choice = choice;
  sampler.run({&job, 1}, threads);
  return job;
}

TEST(Sampler, TakesTheBestTokenAtTemperatureZero) { EXPECT_EQ(run_one({}).token.id, 1); }

TEST(Sampler, BiasAllowedIdsAndMaskDecideWhatMayCome) {
  GenerationRequest request;
  request.logit_bias = {{4, 10.f}, {1000000, 5.f}, {-1, 5.f}};
  EXPECT_EQ(run_one(request).token.id, 4);
  request.logit_bias.clear();
  request.allowed_ids = {0, 3};
  EXPECT_EQ(run_one(request).token.id, 3);
  request.allowed_ids.clear();
  const uint64_t mask = 0b10001;
  EXPECT_EQ(run_one(request, {}, 0, {&mask, 1}).token.id, 0);
  const uint64_t nothing = 0;
  EXPECT_TRUE(run_one(request, {}, 0, {&nothing, 1}).impossible);
}

TEST(Sampler, NoEndComesBeforeTheLeastNumberOfTokens) {
  GenerationRequest request;
  request.min_tokens = 2;
  const int32_t end = 1;
  EXPECT_EQ(run_one(request, {0}, 1, {}, {&end, 1}).token.id, 2);
  EXPECT_EQ(run_one(request, {0, 0}, 2, {}, {&end, 1}).token.id, 1);
}

TEST(Sampler, RepetitionCountsThePromptFrequencyOnlyTheOutput) {
  GenerationRequest request;
  request.sampling.repetition_penalty = 2.f;
  EXPECT_EQ(run_one(request, {1}, 0).token.id, 2) << "3 / 2 is below 2";
  request.sampling.repetition_penalty = 1.f;
  request.sampling.frequency_penalty = 0.6f;
  EXPECT_EQ(run_one(request, {1, 1, 1}, 0).token.id, 1) << "the prompt does not count";
  EXPECT_EQ(run_one(request, {1, 1, 1}, 1).token.id, 1);
  EXPECT_EQ(run_one(request, {1, 1, 1}, 2).token.id, 2);
}

TEST(Sampler, LogprobsAreTheModelsOwn) {
  GenerationRequest request;
  request.top_logprobs = 2;
  request.allowed_ids = {4};
  const GeneratedToken token = run_one(request).token;
  double total = 0;
  for (const float logit : kLogits) total += std::exp(static_cast<double>(logit));
  EXPECT_EQ(token.id, 4);
  EXPECT_NEAR(token.logprob, -1 - std::log(total), 1e-6);
  ASSERT_EQ(token.top.size(), 2u);
  EXPECT_EQ(token.top[0].id, 1);
  EXPECT_EQ(token.top[1].id, 2);
  EXPECT_NEAR(token.top[0].logprob, 3 - std::log(total), 1e-6);
}

TEST(Sampler, ADrawDependsOnSeedChoiceAndIndexAlone) {
  GenerationRequest request;
  request.sampling.temperature = 2.f;
  request.seed = 7;
  const std::vector<int32_t> history(40, 0);
  std::set<std::vector<int32_t>> streams;
  for (int choice = 0; choice < 3; ++choice) {
    std::vector<int32_t> drawn;
    for (int64_t index = 0; index < 40; ++index) {
      drawn.push_back(run_one(request, history, index, {}, {}, choice).token.id);
      EXPECT_EQ(drawn.back(), run_one(request, history, index, {}, {}, choice).token.id);
    }
    streams.insert(drawn);
  }
  EXPECT_EQ(streams.size(), 3u) << "choices draw differently";
}

TEST(Sampler, TypicalSamplingKeepsTheTokensOfTheExpectedSurprise) {
  GenerationRequest request;
  request.sampling.temperature = 1.f;
  request.typical_p = 0.1f;
  std::set<int32_t> seen;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    request.seed = seed;
    seen.insert(run_one(request).token.id);
  }
  EXPECT_EQ(seen.size(), 1u);
}

TEST(Sampler, ManyRowsOnManyThreadsGiveWhatEachGivesAlone) {
  GenerationRequest request;
  request.sampling.temperature = 1.f;
  request.top_logprobs = 1;
  ThreadPool threads({.num_threads = 2});
  Sampler sampler(2);
  std::vector<SampleJob> jobs(30);
  const std::vector<int32_t> history(30, 2);
  for (size_t i = 0; i < jobs.size(); ++i) {
    jobs[i].logits = kLogits;
    jobs[i].request = &request;
    jobs[i].history = history;
    jobs[i].num_generated = static_cast<int64_t>(i);
  }
  sampler.run(jobs, threads);
  for (size_t i = 0; i < jobs.size(); ++i)
    EXPECT_EQ(jobs[i].token.id, run_one(request, history, static_cast<int64_t>(i)).token.id);
}

}  // namespace
}  // namespace cheetah
