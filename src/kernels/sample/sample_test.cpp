// SPDX-License-Identifier: MIT
#include "kernels/sample/sample.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/random.h"
#include "kernels/every_target.h"

namespace cheetah {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_logits(size_t count, uint64_t seed, float deviation = 3.f) {
  Philox random(seed);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = deviation * random.next_normal();
  return logits;
}

int32_t plain_argmax(const std::vector<float>& logits) {
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > logits[best] || std::isnan(logits[best])) best = std::isnan(logits[i]) ? best : i;
  return static_cast<int32_t>(best);
}

// The tokens each filter leaves, by the definition: sort everything.
std::set<int32_t> allowed(const std::vector<float>& logits, const SamplingParams& params) {
  std::vector<std::pair<double, int32_t>> order;
  const double peak = *std::ranges::max_element(logits);
  for (size_t i = 0; i < logits.size(); ++i)
    order.emplace_back(std::exp((logits[i] - peak) / params.temperature), static_cast<int32_t>(i));
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.first > b.first; });
  if (params.top_k > 0) order.resize(std::min(order.size(), static_cast<size_t>(params.top_k)));
  double total = 0, sum = 0;
  for (const auto& [weight, id] : order) total += weight;
  std::set<int32_t> ids;
  for (const auto& [weight, id] : order) {
    if (weight < static_cast<double>(params.min_p) && !ids.empty()) break;
    ids.insert(id);
    sum += weight;
    if (params.top_p < 1.f && sum >= static_cast<double>(params.top_p) * total) break;
  }
  return ids;
}

TEST(Argmax, MatchesAPlainLoopOnEverySize) {
  for_every_target([] {
    for (size_t count = 1; count < 300; ++count) {
      std::vector<float> logits = random_logits(count, count);
      if (count % 3 == 0) logits[count / 2] = kNan;
      for (float& logit : logits) logit = std::round(logit);  // coarse: ties go to the lower index
      EXPECT_EQ(argmax(logits), plain_argmax(logits)) << count;
    }
  });
}

TEST(Argmax, HandlesInfinitiesAndNaN) {
  EXPECT_EQ(argmax(std::vector<float>{kNan, -kInfinity, -5.f, kNan}), 2);
  EXPECT_EQ(argmax(std::vector<float>{-kInfinity, -kInfinity}), 0);
  EXPECT_EQ(argmax(std::vector<float>{kNan, -kInfinity}), 1);
  EXPECT_EQ(argmax(std::vector<float>{kNan, kNan}), 0);
  EXPECT_EQ(argmax(std::vector<float>{1.f, kInfinity, kInfinity}), 1);
}

TEST(LogSumExp, MatchesDoubleArithmetic) {
  for (const size_t count : {1, 2, 15, 16, 17, 1000, 128256}) {
    const std::vector<float> logits = random_logits(count, 3, 8.f);
    const double peak = *std::ranges::max_element(logits);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit - peak);
    // Each term carries the vector exponential's relative error, below 1e-6; so does their sum.
    for_every_target([&] { EXPECT_NEAR(log_sum_exp(logits), peak + std::log(sum), 1e-6) << count; });
  }
}

TEST(LogSumExp, SurvivesExtremes) {
  EXPECT_EQ(log_sum_exp(std::vector<float>{1e30f, 1e30f}), static_cast<double>(1e30f));
  EXPECT_EQ(log_sum_exp(std::vector<float>{-kInfinity, 0.f}), 0.0);
  EXPECT_EQ(log_sum_exp(std::vector<float>{-kInfinity}), -static_cast<double>(kInfinity));
}

TEST(Sample, ZeroTemperatureAndTopOneAreGreedy) {
  SampleScratch scratch;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<float> logits = random_logits(1000, seed);
    EXPECT_EQ(cheetah::sample(logits, {}, {.draw = 0.99}, scratch), argmax(logits));
    EXPECT_EQ(
        cheetah::sample(logits, {.temperature = 1.f, .top_k = 1}, {.draw = 0.99}, scratch), argmax(logits));
    EXPECT_EQ(cheetah::sample(logits, {.temperature = 1.f, .top_p = 1e-9f}, {.draw = 0.99}, scratch),
        argmax(logits));
    EXPECT_EQ(
        cheetah::sample(logits, {.temperature = 1.f, .min_p = 1.f}, {.draw = 0.99}, scratch), argmax(logits));
    EXPECT_EQ(
        cheetah::sample(logits, {.temperature = 1.f, .min_p = 2.f}, {.draw = 0.99}, scratch), argmax(logits));
  }
}

TEST(Sample, DrawsOnlyWhatTheFiltersLeaveAndReachesAllOfIt) {
  SampleScratch scratch;
  Philox random(77);
  const std::vector<SamplingParams> cases = {
      {.temperature = 1.f, .top_k = 5},
      {.temperature = 0.7f, .top_k = 40, .top_p = 0.8f},
      {.temperature = 1.f, .top_p = 0.5f},
      {.temperature = 3.f, .top_p = 0.9f},  // flat: the nucleus outgrows the first sorted head
      {.temperature = 1.f, .min_p = 0.2f},
      {.temperature = 1.5f, .top_k = 100, .top_p = 0.95f, .min_p = 0.05f},
      {.temperature = 1.f, .top_k = 100000},
      {.temperature = 2.f, .top_p = 0.97f, .min_p = 0.001f},
      {.temperature = 0.01f, .top_p = 0.9f, .min_p = 0.5f},
  };
  for (size_t which = 0; which < cases.size(); ++which) {
    const std::vector<float> logits = random_logits(2000, which);
    const std::set<int32_t> ids = allowed(logits, cases[which]);
    std::set<int32_t> seen;
    for (int draw = 0; draw < 2000; ++draw)
      seen.insert(cheetah::sample(logits, cases[which], {.draw = random.next_uniform()}, scratch));
    EXPECT_TRUE(std::ranges::includes(ids, seen)) << "case " << which;
    if (ids.size() < 20) {
      EXPECT_EQ(seen.size(), ids.size()) << "case " << which;
    }
    EXPECT_TRUE(ids.contains(cheetah::sample(logits, cases[which], {.draw = 0.0}, scratch)));
    EXPECT_TRUE(ids.contains(cheetah::sample(logits, cases[which], {.draw = 1.0 - 0x1p-53}, scratch)));
  }
}

TEST(Sample, TopKEqualsASortOnEveryTarget) {
  SampleScratch scratch;
  std::vector<float> logits = random_logits(40000, 21);
  for (float& logit : logits) logit = std::round(logit * 8) / 8;  // ties at every cut
  for_every_target([&] {
    for (const int64_t k : {2, 3, 64, 1000, 39999}) {
      const SamplingParams params{.temperature = 30.f, .top_k = k};
      const std::set<int32_t> ids = allowed(logits, params);
      cheetah::sample(logits, params, {.draw = 0.5}, scratch);
      std::set<int32_t> kept;
      for (const auto& [logit, id] : scratch.candidates) kept.insert(id);
      EXPECT_EQ(kept, ids) << k;
    }
  });
}

TEST(Sample, FrequenciesFollowTheProbabilities) {
  SampleScratch scratch;
  const std::vector<float> logits = {std::log(1.f), std::log(2.f), std::log(3.f), std::log(4.f)};
  constexpr int kDraws = 40000;
  for (const SamplingParams& params :
      {SamplingParams{.temperature = 1.f}, {.temperature = 1.f, .top_k = 4}}) {
    Philox random(1);
    std::vector<int> counts(4);
    for (int i = 0; i < kDraws; ++i)
      ++counts[static_cast<size_t>(
          cheetah::sample(logits, params, {.draw = random.next_uniform()}, scratch))];
    for (size_t id = 0; id < 4; ++id) {
      const double p = static_cast<double>(id + 1) / 10, deviation = std::sqrt(p * (1 - p) * kDraws);
      EXPECT_NEAR(counts[id], p * kDraws, 4.5 * deviation) << id;
    }
  }
}

TEST(Sample, IsAFunctionOfItsArguments) {
  SampleScratch warm, cold;
  const std::vector<float> logits = random_logits(5000, 8);
  const SamplingParams params{.temperature = 0.9f, .top_p = 0.9f};
  cheetah::sample(random_logits(9000, 4), {.temperature = 2.f, .top_k = 50}, {.draw = 0.3}, warm);
  for (double uniform = 0; uniform < 1; uniform += 0.01)
    EXPECT_EQ(cheetah::sample(logits, params, {.draw = uniform}, warm),
        cheetah::sample(logits, params, {.draw = uniform}, cold));
}

TEST(Sample, NeverDrawsTheForbidden) {
  SampleScratch scratch;
  const std::vector<float> logits = {-kInfinity, kNan, 1.f, -kInfinity, 0.5f};
  for (const SamplingParams& params : {SamplingParams{.temperature = 1.f}, {.temperature = 1.f, .top_k = 4},
           {.temperature = 5.f, .top_p = 0.999f}, {.temperature = 1.f, .min_p = 0.01f}})
    for (double uniform = 0; uniform < 1; uniform += 0.05) {
      const int32_t id = cheetah::sample(logits, params, {.draw = uniform}, scratch);
      EXPECT_TRUE(id == 2 || id == 4) << id;
    }
}

}  // namespace
}  // namespace cheetah
