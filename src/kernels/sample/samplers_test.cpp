// SPDX-License-Identifier: MIT
// XTC, top-n-sigma, dynamic temperature, and how samplers work together.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/random.h"
#include "kernels/sample/mirostat.h"
#include "kernels/sample/row_sampler.h"

namespace cheetah {
namespace {

std::vector<float> random_logits(size_t count, uint64_t seed) {
  Philox random(seed);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = 2.f * random.next_normal();
  return logits;
}

SampledToken choose(const SampleRow& row, std::span<const float> logits, int32_t last_token = 0) {
  RowSampler::Scratch scratch;
  SampledToken sampled;
  RowSampler::sample_one(
      {.row = row, .logits = logits, .last_token = last_token, .sampled = sampled}, scratch);
  return sampled;
}

// How often each token comes, over an even grid of both numbers.
std::map<int32_t, double> frequencies(SampleRow row, std::span<const float> logits) {
  constexpr int kDraws = 2000, kXtc = 10;
  std::map<int32_t, double> counts;
  for (int i = 0; i < kDraws; ++i)
    for (int k = 0; k < kXtc; ++k) {
      row.uniform = (i + 0.5) / kDraws;
      row.xtc_uniform = (k + 0.5) / kXtc;
      counts[choose(row, logits).token.id] += 1.0 / (kDraws * kXtc);
    }
  return counts;
}

std::vector<double> softmax(std::span<const float> logits, double temperature) {
  std::vector<double> p;
  double total = 0;
  for (const float logit : logits) total += p.emplace_back(std::exp(logit / temperature));
  for (double& each : p) each /= total;
  return p;
}

void expect_distribution(const std::map<int32_t, double>& got, const std::vector<double>& expected) {
  for (size_t id = 0; id < expected.size(); ++id) {
    const auto found = got.find(static_cast<int32_t>(id));
    EXPECT_NEAR(found == got.end() ? 0 : found->second, expected[id], 2e-3) << id;
  }
}

// The definition: of the tokens with at least the threshold's share, all but the least leave.
std::vector<double> without_top(std::vector<double> p, double threshold) {
  std::vector<size_t> top;
  for (size_t id = 0; id < p.size(); ++id)
    if (p[id] >= threshold) top.push_back(id);
  if (top.size() < 2) return p;
  const size_t least = *std::ranges::min_element(top, {}, [&](size_t id) { return p[id]; });
  double left = 0;
  for (const size_t id : top)
    if (id != least) p[id] = 0;
  for (const double each : p) left += each;
  for (double& each : p) each /= left;
  return p;
}

TEST(Xtc, TakesOutTheTopTokensAsOftenAsAsked) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const std::vector<float> logits = random_logits(12, seed);
    SampleRow row;
    row.sampling = {.temperature = 0.9f, .xtc_probability = 0.3f, .xtc_threshold = 0.1f};
    const std::vector<double> whole = softmax(logits, 0.9), cut = without_top(whole, 0.1);
    std::vector<double> expected;
    for (size_t id = 0; id < whole.size(); ++id) expected.push_back(0.7 * whole[id] + 0.3 * cut[id]);
    expect_distribution(frequencies(row, logits), expected);
  }
}

TEST(Xtc, LooksAtWhatTheOtherFiltersLeave) {
  const std::vector<float> logits = {3.f, 2.9f, 1.f, 0.5f, 0.f};
  SampleRow row;
  row.sampling = {.temperature = 1.f, .top_k = 2, .xtc_probability = 1.f};
  EXPECT_EQ(frequencies(row, logits), (std::map<int32_t, double>{{1, frequencies(row, logits)[1]}}));
  row.sampling.xtc_threshold = 0.6f;
  EXPECT_EQ(frequencies(row, logits).size(), 2u) << "above one half it does nothing";
}

TEST(TopNSigma, KeepsTheLogitsNearTheBestByTheirDeviation) {
  for (uint64_t seed = 0; seed < 6; ++seed) {
    const std::vector<float> logits = random_logits(40, seed + 50);
    double mean = 0, variance = 0;
    for (const float logit : logits) mean += logit / 40.0;
    for (const float logit : logits) variance += (logit - mean) * (logit - mean) / 40;
    const double peak = *std::ranges::max_element(logits), least = peak - 1.2 * std::sqrt(variance);
    SampleRow row;
    row.sampling = {.temperature = 2.f, .top_n_sigma = 1.2f};
    std::vector<float> kept = logits;
    for (float& logit : kept)
      if (logit < least) logit = -1e9f;
    expect_distribution(frequencies(row, logits), softmax(kept, 2.0));
  }
}

TEST(DynamicTemperature, LiesWhereTheEntropyLies) {
  const std::vector<float> logits = {2.f, 1.f, 0.f, -1.f};
  const std::vector<double> p = softmax(logits, 1);
  double entropy = 0;
  for (const double each : p) entropy -= each * std::log(each);
  SampleRow row;
  row.sampling = {.temperature = 1.f, .dynatemp_range = 0.5f, .dynatemp_exponent = 2.f};
  const double temperature = 0.5 + 1.0 * std::pow(entropy / std::log(4), 2);
  expect_distribution(frequencies(row, logits), softmax(logits, temperature));
}

TEST(DynamicTemperature, TakesTheBestTokenWhereTheModelIsSure) {
  const std::vector<float> logits = {60.f, 0.f, 0.f, 0.f};
  SampleRow row;
  row.sampling = {.temperature = 0.5f, .dynatemp_range = 0.5f};
  EXPECT_EQ(frequencies(row, logits).size(), 1u);
}

TEST(Samplers, TemperatureZeroTakesTheBestTokenWhateverElseIsAsked) {
  const std::vector<float> logits = {0.f, 3.f, 2.f};
  SampleRow row;
  row.typical_p = 0.1f;
  row.sampling = {
      .top_n_sigma = 1.f, .xtc_probability = 1.f, .dynatemp_range = 2.f, .mirostat = Mirostat::kSecond};
  EXPECT_EQ(frequencies(row, logits), (std::map<int32_t, double>{{1, frequencies(row, logits)[1]}}));
  EXPECT_FALSE(row.needs_host());
}

TEST(Samplers, MirostatTakesThePlaceOfTheFiltersAndMovesOn) {
  const std::vector<float> logits = random_logits(200, 4);
  SampleRow row;
  row.sampling = {
      .temperature = 1.f, .top_k = 1000, .top_p = 0.1f, .mirostat = Mirostat::kSecond, .mirostat_tau = 8.f};
  row.mirostat_mu = first_mirostat_mu(row.sampling);
  row.uniform = 0.97;
  const SampledToken far = choose(row, logits);
  row.uniform = 0;
  const SampledToken near = choose(row, logits);
  EXPECT_LT(logits[static_cast<size_t>(far.token.id)], logits[static_cast<size_t>(near.token.id)] - 1)
      << "top-p 0.1 would not have left it";
  EXPECT_NE(far.mirostat_mu, row.mirostat_mu);
  EXPECT_GT(near.mirostat_mu, far.mirostat_mu) << "an expected token leaves room for surprise";
}

TEST(Samplers, KeepToAGrammarAndGiveTheModelsLogprobs) {
  const std::vector<float> logits = random_logits(64, 9);
  const uint64_t mask = 0b1011000;
  for (const Mirostat mirostat : {Mirostat::kOff, Mirostat::kFirst, Mirostat::kSecond}) {
    SampleRow row;
    row.sampling = {.temperature = 1.5f,
        .dry = {.multiplier = 1.f},
        .top_n_sigma = 3.f,
        .xtc_probability = 0.5f,
        .dynatemp_range = 0.5f,
        .mirostat = mirostat};
    row.mirostat_mu = first_mirostat_mu(row.sampling);
    row.mask = {&mask, 1};
    row.top_logprobs = 2;
    for (int i = 0; i < 50; ++i) {
      row.uniform = i / 50.0;
      row.xtc_uniform = i % 7 / 7.0;
      const SampledToken sampled = choose(row, logits);
      EXPECT_TRUE(mask >> sampled.token.id & 1) << sampled.token.id;
      EXPECT_NEAR(
          sampled.token.logprob, std::log(softmax(logits, 1)[static_cast<size_t>(sampled.token.id)]), 1e-5);
      EXPECT_EQ(sampled.token.top.size(), 2u);
    }
    const uint64_t nothing = 0;
    row.mask = {&nothing, 1};
    EXPECT_TRUE(choose(row, logits).impossible);
  }
}

TEST(Samplers, DryReadsTheLastTokenToo) {
  const std::vector<float> logits = {1.f, 1.1f, 0.f};
  SampleRow row;
  row.sampling.dry = {.multiplier = 1.f, .base = 1.5f, .allowed_length = 1};
  const std::vector<int32_t> history = {2, 1, 0};
  row.history = history;
  EXPECT_EQ(choose(row, logits, 2).token.id, 0) << "after 2 came 1";
  EXPECT_TRUE(row.needs_host());
}

}  // namespace
}  // namespace cheetah
