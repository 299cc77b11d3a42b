// SPDX-License-Identifier: MIT
#include "engine/speculate/draft_depth.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"

namespace cheetah {
namespace {

VerifyTimes times_of(double fixed_s, double per_token_s, int64_t most = VerifyTimes::kMostTokens) {
  VerifyTimes times;
  for (int64_t n = 1; n <= most; ++n) times.observe(n, fixed_s + per_token_s * static_cast<double>(n));
  return times;
}

TEST(Acceptance, GoesFromThePriorToWhatIsSeen) {
  Acceptance rate;
  EXPECT_EQ(rate.rate(0.5, 2), 0.5);
  for (int i = 0; i < 50; ++i) rate.observe(4, 4);
  EXPECT_GT(rate.rate(0.5, 2), 0.95);
  for (int i = 0; i < 200; ++i) rate.observe(4, 0);
  EXPECT_LT(rate.rate(0.5, 2), 0.06);
  rate.fade(0);
  EXPECT_EQ(rate.rate(0.5, 2), 0.5);
}

TEST(Acceptance, FindsTheRateOfEachFurtherToken) {
  Philox random(3);
  Acceptance rate;
  for (int i = 0; i < 2000; ++i) {
    int64_t accepted = 0;
    while (accepted < 5 && random.next_uniform() < 0.7) ++accepted;
    rate.observe(5, accepted);
  }
  EXPECT_NEAR(rate.rate(0.5, 2), 0.7, 0.15);
}

TEST(VerifyTimes, KnowsNothingThenHopesThenKnows) {
  VerifyTimes times;
  EXPECT_EQ(times.predict(1), 0);
  times.observe(1, 0.010);
  EXPECT_EQ(times.predict(1), 0.010);
  EXPECT_GT(times.predict(2), 0.010);
  EXPECT_LT(times.predict(2), 0.014) << "hopes for less than twice the time";
  times.observe(4, 0.022);
  EXPECT_NEAR(times.predict(2), 0.014, 1e-9) << "between two that are known";
}

TEST(VerifyTimes, OneStepThatWasHeldUpChangesLittle) {
  VerifyTimes times = times_of(0.01, 0, 2);
  times.observe(1, 5.0);
  EXPECT_LT(times.predict(1), 0.0111);
}

TEST(VerifyTimes, ABadReadingIsForgottenWhenItIsOld) {
  VerifyTimes times;
  times.observe(1, 0.010);
  times.observe(5, 0.500);
  EXPECT_EQ(times.predict(5), 0.500);
  for (int i = 0; i < 1000; ++i) times.observe(1, 0.010);
  EXPECT_LT(times.predict(5), 0.030);
}

DraftPlan plan_of(const std::vector<DraftCandidate>& candidates, int64_t tokens, const VerifyTimes& times) {
  DraftPlan plan;
  choose_depths(candidates, tokens, times, plan);
  return plan;
}

TEST(ChooseDepths, DraftsAsFarAsItPays) {
  const VerifyTimes free_tokens = times_of(0.01, 0);
  EXPECT_EQ(plan_of({{.rate = 0.9, .longest = 8}}, 1, free_tokens).depths, (std::vector<int64_t>{8}));
  const VerifyTimes dear_tokens = times_of(0, 0.01);
  EXPECT_EQ(plan_of({{.rate = 0.9, .longest = 8}}, 1, dear_tokens).depths, (std::vector<int64_t>{0}))
      << "a step that takes as long as its tokens gains nothing";
  const DraftPlan some = plan_of({{.rate = 0.7, .longest = 8}}, 1, times_of(0.008, 0.002));
  EXPECT_GT(some.depths[0], 0);
  EXPECT_LT(some.depths[0], 8);
}

TEST(ChooseDepths, PrefersTheLikely) {
  const VerifyTimes times = times_of(0.008, 0.002);
  const DraftPlan plan = plan_of({{.rate = 0.95, .longest = 8}, {.rate = 0.1, .longest = 8}}, 2, times);
  EXPECT_GT(plan.depths[0], 3);
  EXPECT_EQ(plan.depths[1], 0);
}

TEST(ChooseDepths, NothingWithoutTimesOrCandidates) {
  EXPECT_EQ(plan_of({{.rate = 0.9, .longest = 8}}, 1, {}).depths, (std::vector<int64_t>{0}));
  EXPECT_TRUE(plan_of({}, 1, times_of(0.01, 0)).depths.empty());
  EXPECT_EQ(plan_of({{}, {}}, 2, times_of(0.01, 0)).depths, (std::vector<int64_t>{0, 0}));
}

// The slow twin: every combination of depths.
TEST(ChooseDepths, FindsTheBestOfAllCombinations) {
  Philox random(9);
  for (int round = 0; round < 300; ++round) {
    const VerifyTimes times =
        times_of(0.01 * random.next_uniform() + 1e-4, 0.002 * random.next_uniform() + 1e-5);
    std::vector<DraftCandidate> candidates;
    for (int i = 0; i < 3; ++i)
      candidates.push_back(
          {.rate = random.next_uniform(), .longest = static_cast<int64_t>(random.next_u32() % 5)});
    const auto rate_of = [&](const std::vector<int64_t>& depths) {
      double tokens = 0;
      int64_t count = 0;
      for (size_t i = 0; i < depths.size(); ++i) {
        count += 1 + depths[i];
        for (int64_t k = 0; k <= depths[i]; ++k)
          tokens += std::pow(candidates[i].rate, static_cast<double>(k));
      }
      return tokens / times.predict(count);
    };
    double best = 0;
    for (int64_t a = 0; a <= candidates[0].longest; ++a)
      for (int64_t b = 0; b <= candidates[1].longest; ++b)
        for (int64_t c = 0; c <= candidates[2].longest; ++c) best = std::max(best, rate_of({a, b, c}));
    const DraftPlan plan = plan_of(candidates, 3, times);
    const double none = rate_of({0, 0, 0});
    EXPECT_GE(rate_of(plan.depths) * 1.0001, best / none < 1.03 ? none : best) << round;
  }
}

}  // namespace
}  // namespace cheetah
