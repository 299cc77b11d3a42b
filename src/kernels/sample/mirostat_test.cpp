// SPDX-License-Identifier: MIT
#include "kernels/sample/mirostat.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "kernels/sample/sample.h"

namespace cheetah {
namespace {

// Logits of p(i) ~ (i + 1)^-s, best first.
std::vector<Candidate> zipf(int count, double s) {
  std::vector<Candidate> candidates;
  for (int i = 0; i < count; ++i) candidates.emplace_back(static_cast<float>(-s * std::log(i + 1)), i);
  return candidates;
}

double mean_surprise(const SamplingParams& params, const std::vector<Candidate>& candidates, int draws) {
  double total = 0, sum = 0;
  for (const auto& [logit, id] : candidates) total += std::exp(logit / params.temperature);
  float mu = first_mirostat_mu(params);
  Philox random(11);
  for (int i = 0; i < draws; ++i) {
    const MirostatDraw drawn = draw_mirostat(candidates, params, mu, random.next_uniform());
    mu = drawn.mu;
    if (i < draws / 4) continue;  // settling
    sum -= std::log2(std::exp(candidates[static_cast<size_t>(drawn.id)].first / params.temperature) / total);
  }
  return sum / (draws - draws / 4);
}

// The surprise held is that among the kept tokens; the text's own is a little more, by the mass cut off.
TEST(Mirostat, HoldsTheSurpriseNearItsTarget) {
  const std::vector<Candidate> candidates = zipf(5000, 1.1);
  for (const Mirostat version : {Mirostat::kFirst, Mirostat::kSecond})
    for (const float tau : {2.f, 3.f, 5.f}) {
      const SamplingParams params{.temperature = 1.f, .mirostat = version, .mirostat_tau = tau};
      float mu = first_mirostat_mu(params);
      Philox random(5);
      double error = 0;
      constexpr int kDraws = 4000;
      for (int i = 0; i < kDraws; ++i) {
        const float before = mu;
        mu = draw_mirostat(candidates, params, mu, random.next_uniform()).mu;
        error += (before - mu) / params.mirostat_eta;  // surprise - tau
      }
      EXPECT_NEAR(error / kDraws, 0, 0.1) << tau;
    }
}

TEST(Mirostat, AHigherTargetIsMoreSurprising) {
  const std::vector<Candidate> candidates = zipf(5000, 1.1);
  for (const Mirostat version : {Mirostat::kFirst, Mirostat::kSecond}) {
    double last = 0;
    for (const float tau : {1.f, 3.f, 6.f}) {
      const double surprise =
          mean_surprise({.temperature = 1.f, .mirostat = version, .mirostat_tau = tau}, candidates, 3000);
      EXPECT_GT(surprise, last + 0.5);
      last = surprise;
    }
  }
}

// Version 2 by its definition: keep what is at most mu bits surprising, draw, move mu.
TEST(Mirostat, TheSecondVersionEqualsItsDefinition) {
  Philox random(8);
  for (int round = 0; round < 500; ++round) {
    std::vector<Candidate> candidates;
    for (int i = 0; i < 2 + round % 30; ++i) candidates.emplace_back(2.f * random.next_normal(), i);
    std::ranges::sort(candidates, std::greater());
    const SamplingParams params{.temperature = 0.8f, .mirostat = Mirostat::kSecond, .mirostat_tau = 3.f};
    const auto mu = static_cast<float>(6 * random.next_uniform());
    const double uniform = random.next_uniform();
    std::vector<double> p;
    double total = 0;
    for (const auto& [logit, id] : candidates) total += p.emplace_back(std::exp(logit / 0.8));
    size_t kept = 0;
    double mass = 0;
    while (kept < p.size() && (kept == 0 || -std::log2(p[kept] / total) <= mu)) mass += p[kept++];
    size_t chosen = 0;
    for (double sum = p[0]; chosen + 1 < kept && sum <= uniform * mass; sum += p[chosen]) ++chosen;
    const MirostatDraw got = draw_mirostat(candidates, params, mu, uniform);
    ASSERT_EQ(got.id, candidates[chosen].second) << round;
    ASSERT_NEAR(got.mu, mu - 0.1 * (-std::log2(p[chosen] / mass) - 3), 1e-4) << round;
  }
}

TEST(Mirostat, OneTokenAndEqualTokensAreDrawn) {
  for (const Mirostat version : {Mirostat::kFirst, Mirostat::kSecond}) {
    const SamplingParams params{.temperature = 1.f, .mirostat = version};
    EXPECT_EQ(draw_mirostat(std::vector<Candidate>{{1.f, 7}}, params, 10.f, 0.9).id, 7);
    const std::vector<Candidate> alike(10, {0.f, 3});
    EXPECT_EQ(draw_mirostat(alike, params, 10.f, 0.9).id, 3);
  }
}

}  // namespace
}  // namespace cheetah
