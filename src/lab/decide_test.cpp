// SPDX-License-Identifier: MIT
#include "lab/decide.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace cheetah::lab {
namespace {

// Times around `seconds`, each off by at most `noise` of it.
std::vector<double> noisy(double seconds, double noise, uint64_t seed, int count = 15) {
  Philox random(seed);
  std::vector<double> times;
  for (int i = 0; i < count; ++i) times.push_back(seconds * (1 + noise * (2 * random.next_uniform() - 1)));
  return times;
}

Verdict verdict_at(double factor, double noise, uint64_t seed) {
  const auto a = noisy(1e-3, noise, seed), again = noisy(1e-3, noise, seed + 100);
  const MeasuredVariant variant{.seconds = noisy(1e-3 * factor, noise, seed + 200)};
  return judge(variant, {.a = a, .a_again = again}, Domain::kCuda).verdict;
}

TEST(Decide, TheSameTimesAreNeutral) {
  for (uint64_t seed = 0; seed < 40; ++seed) EXPECT_EQ(verdict_at(1, 0.03, seed), Verdict::kNeutral) << seed;
}

TEST(Decide, AFifthSlowerIsSlowerAndAFifthFasterIsFaster) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    EXPECT_EQ(verdict_at(1.2, 0.05, seed), Verdict::kSlower) << seed;
    EXPECT_EQ(verdict_at(1 / 1.2, 0.05, seed), Verdict::kFaster) << seed;
  }
}

TEST(Decide, ADifferenceWithinTheNoiseOfEqualRunsIsNeutral) {
  std::vector<double> a, again, variant;
  for (int i = 0; i < 15; ++i) {  // A and A' differ by up to 30 %
    a.push_back(i % 2 == 0 ? 1.3e-3 : 1e-3);
    again.push_back(i % 3 == 0 ? 1.3e-3 : 1e-3);
    variant.push_back(i % 5 == 0 ? 1.2e-3 : 0.95e-3);
  }
  EXPECT_GT(detectable_effect(a, again, Domain::kCuda), 0.02);
  EXPECT_EQ(
      judge({.seconds = variant}, {.a = a, .a_again = again}, Domain::kCuda).verdict, Verdict::kNeutral);
}

TEST(Decide, NoiseThatAWholeRoundSharesDropsOutOfItsRatios) {
  std::vector<double> a, again, variant;
  for (int i = 0; i < 15; ++i) {
    const double disturbed = 1e-3 * (1 + i % 4);  // a neighbour comes and goes
    a.push_back(disturbed), again.push_back(disturbed * 1.001), variant.push_back(disturbed / 1.1);
  }
  const VariantResult result = judge({.seconds = variant}, {.a = a, .a_again = again}, Domain::kCuda);
  EXPECT_EQ(result.verdict, Verdict::kFaster);
  EXPECT_NEAR(result.speedup.ratio, 1.1, 0.01);
}

TEST(Decide, OnACpuRoundsThatOthersDisturbedDoNotDecide) {
  std::vector<double> a = noisy(1e-3, 0.01, 1, 24), again = noisy(1e-3, 0.01, 2, 24);
  std::vector<double> slower = noisy(1.2e-3, 0.01, 3, 24), same = noisy(1e-3, 0.01, 4, 24);
  for (size_t i = 0; i < a.size(); ++i) {  // about half of all samples wait for another process
    for (auto* times : {&a, &again, &slower, &same})
      if (philox_at(9, static_cast<uint64_t>(times == &a) + 2 * static_cast<uint64_t>(times == &slower), i) %
              2 ==
          0)
        (*times)[i] *= 5;
  }
  const Baseline baseline{.a = a, .a_again = again};
  EXPECT_EQ(judge({.seconds = slower}, baseline, Domain::kCpu).verdict, Verdict::kSlower);
  EXPECT_EQ(judge({.seconds = same}, baseline, Domain::kCpu).verdict, Verdict::kNeutral);
}

TEST(Decide, FasterThanTheMachineCanBeIsImpossible) {
  const auto a = noisy(1e-3, 0.01, 1), again = noisy(1e-3, 0.01, 2);
  const MeasuredVariant variant{
      .seconds = noisy(1e-5, 0.01, 3), .cost = {.bytes = 1e9, .roof = Roof::kDram}, .roof_rate = 1e12};
  const VariantResult result = judge(variant, {.a = a, .a_again = again}, Domain::kCuda);
  EXPECT_EQ(result.verdict, Verdict::kImpossible);
  EXPECT_EQ(result.num_rejected, result.num_samples);
}

TEST(Decide, TheFloorIsWorkOverTheRoofsRate) {
  EXPECT_DOUBLE_EQ(floor_seconds({.flops = 10, .bytes = 4, .roof = Roof::kDram}, 2), 2);
  EXPECT_DOUBLE_EQ(floor_seconds({.flops = 10, .bytes = 4, .roof = Roof::kFp32}, 2), 5);
  EXPECT_DOUBLE_EQ(floor_seconds({.roof = Roof::kLaunch, .items = 6}, 2), 3);
  EXPECT_DOUBLE_EQ(floor_seconds({.flops = 10, .bytes = 4, .roof = Roof::kDram}, 0), 0);
}

TEST(Decide, TheSameSamplesGiveTheSameInterval) {
  const auto a = noisy(1, 0.2, 1), b = noisy(1, 0.2, 2);
  const Speedup first = ratio_of(a, b, Domain::kCuda), second = ratio_of(a, b, Domain::kCuda);
  EXPECT_EQ(first.low, second.low);
  EXPECT_EQ(first.high, second.high);
  EXPECT_LE(first.low, first.ratio);
  EXPECT_GE(first.high, first.ratio);
}

}  // namespace
}  // namespace cheetah::lab
