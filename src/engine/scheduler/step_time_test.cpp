// SPDX-License-Identifier: MIT
#include "engine/scheduler/step_time.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace cheetah {
namespace {

StepShape shape_of(int64_t tokens, int64_t context) {
  StepShape shape;
  shape.add(tokens, context);
  return shape;
}

TEST(StepTime, CountsThePairsOfACausalChunk) {
  // Chunks of 5,000 of a 20,000-token prompt: N (N + 1) / 2 pairs in all.
  StepShape whole;
  for (int64_t at = 0; at < 20000; at += 5000) whole.add(5000, at);
  EXPECT_EQ(whole.tokens, 20000);
  EXPECT_DOUBLE_EQ(whole.pairs, 200010000);
  EXPECT_DOUBLE_EQ(shape_of(5000, 0).pairs, 12502500);
}

TEST(StepTime, LearnsTheCostsOfAMachineFromNoisySteps) {
  const StepTimeModel truth{.fixed_s = 4e-3, .per_token_s = 2e-4, .per_pair_s = 3e-8, .learned = true};
  StepTimeLearner learner;
  EXPECT_FALSE(learner.model().learned);
  Philox random(3);
  for (int i = 0; i < 400; ++i) {
    const auto tokens = static_cast<int64_t>(random.next_u32() % 300 + 1);
    const StepShape shape = shape_of(tokens, random.next_u32() % 4000);
    learner.observe(shape, truth.predict(shape) * (0.95 + 0.1 * random.next_uniform()));
  }
  for (const int64_t tokens : {1, 64, 256})
    EXPECT_NEAR(
        learner.model().predict(shape_of(tokens, 2000)) / truth.predict(shape_of(tokens, 2000)), 1, 0.15);
}

TEST(StepTime, RemembersWhatPromptsCostWhileOthersDecode) {
  const StepTimeModel truth{.fixed_s = 4e-3, .per_token_s = 2e-4, .per_pair_s = 3e-8, .learned = true};
  StepTimeLearner learner;
  for (const int64_t tokens : {1, 16, 64, 128, 256})
    learner.observe(shape_of(tokens, 0), truth.predict(shape_of(tokens, 0)));
  for (int64_t i = 0; i < 5000; ++i)
    learner.observe(shape_of(8, 100 + i), truth.predict(shape_of(8, 100 + i)));
  const StepShape next = shape_of(128, 2000);
  EXPECT_NEAR(learner.model().predict(next) / truth.predict(next), 1, 0.05);
}

TEST(StepTime, KnowsNothingOfPromptsBeforeItSawOne) {
  StepTimeLearner learner;
  for (int i = 0; i < 100; ++i) learner.observe(shape_of(4, i), 0.01);
  EXPECT_FALSE(learner.model().learned);
}

TEST(StepTime, NotesHowLateStepsCanBe) {
  const StepTimeModel truth{.fixed_s = 4e-3, .per_token_s = 2e-4, .per_pair_s = 3e-8, .learned = true};
  Philox random(5);
  for (const double most : {0.02, 0.6}) {
    StepTimeLearner learner;
    int late = 0;
    for (int i = 0; i < 4000; ++i) {
      const StepShape shape = shape_of(static_cast<int64_t>(random.next_u32() % 200 + 1), 500);
      const double seconds = truth.predict(shape) * (1 + most * random.next_uniform());
      if (i >= 2000) late += seconds > learner.model().late * learner.model().predict(shape);
      learner.observe(shape, seconds);
    }
    EXPECT_LT(late, 120) << "about one in fifty of 2,000";
    EXPECT_LT(learner.model().late, 1.1 + most);
  }
}

TEST(StepTime, NeverLearnsANegativeCost) {
  StepTimeLearner learner;
  for (int i = 0; i < 50; ++i) learner.observe(shape_of(16 + i % 3, 10), 0.010 - 0.001 * (i % 3));
  EXPECT_GE(learner.model().per_token_s, 0);
  EXPECT_GE(learner.model().per_pair_s, 0);
  EXPECT_NEAR(learner.model().predict(shape_of(17, 10)), 0.009, 0.002);
}

TEST(StepTime, TokensWithinATimeTakeThatTime) {
  const StepTimeModel model{.fixed_s = 0, .per_token_s = 1e-4, .per_pair_s = 1e-7, .learned = true};
  for (const int64_t context : {0, 1000, 8000}) {
    const int64_t tokens = model.tokens_within(0.05, context);
    EXPECT_GT(tokens, 0);
    EXPECT_LE(model.predict(shape_of(tokens, context)), 0.05);
    EXPECT_GT(model.predict(shape_of(tokens + 2, context)), 0.05);
  }
  EXPECT_EQ(model.tokens_within(-1, 0), 0);
}

}  // namespace
}  // namespace cheetah
