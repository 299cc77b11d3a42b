// SPDX-License-Identifier: MIT
#include "kernels/moe/moe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"

namespace cheetah {
namespace {

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Routed run(RouterArgs args, const std::vector<float>& logits, int64_t tokens = 1) {
  args.logits = logits.data();
  args.tokens = tokens;
  args.experts = tokens ? static_cast<int64_t>(logits.size()) / tokens : 4;
  Routed routed;
  routed.ids.assign(static_cast<size_t>(tokens * args.top_k), -7);
  routed.weights.assign(routed.ids.size(), std::numeric_limits<float>::quiet_NaN());
  route(args, routed.ids, routed.weights);
  return routed;
}

float logit(float probability) { return std::log(probability / (1.f - probability)); }

void expect_near(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  // A handful of float operations, each within 2^-24, on numbers of order one.
  for (size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 2e-6f) << i;
}

TEST(Route, SoftmaxWeightsAreSharesOfAllExperts) {
  const std::vector<float> logits = {std::log(1.f), std::log(4.f), std::log(2.f), std::log(3.f)};
  const Routed routed = run({.top_k = 2}, logits);
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{1, 3}));
  expect_near(routed.weights, {0.4f, 0.3f});
}

TEST(Route, NormalizingDividesByTheSumOfTheChosen) {
  const std::vector<float> logits = {std::log(1.f), std::log(4.f), std::log(2.f), std::log(3.f)};
  const Routed routed = run({.top_k = 2, .normalize = true, .scale = 2.f}, logits);
  expect_near(routed.weights, {8.f / 7, 6.f / 7});
}

TEST(Route, SoftmaxOfTheChosenSumsToOne) {
  const std::vector<float> logits = {1.f, -2.f, 3.f, 1.f};
  const Routed routed = run({.top_k = 3, .score = RouterScore::kSoftmaxOfTopK}, logits);
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{2, 0, 3}));  // the tie goes to the lower index
  const float share = 1.f / (1.f + 2.f * std::exp(-2.f));
  expect_near(routed.weights, {share, share * std::exp(-2.f), share * std::exp(-2.f)});
}

TEST(Route, TheBiasChoosesButDoesNotWeigh) {
  const std::vector<float> logits = {logit(0.9f), logit(0.5f), logit(0.2f), logit(0.1f)};
  const std::vector<float> bias = {-1.f, 0.f, 0.f, 0.6f};
  const Routed routed = run({.top_k = 2,
                                .score = RouterScore::kSigmoid,
                                .normalize = true,
                                .normalize_floor = 1e-20f,
                                .scale = 2.5f,
                                .selection_bias = bias.data()},
      logits);
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{3, 1}));
  expect_near(routed.weights, {2.5f * 0.1f / 0.6f, 2.5f * 0.5f / 0.6f});
}

TEST(Route, OnlyTheBestGroupsTakePart) {
  // Groups {0,1} {2,3} {4,5}: by their best 0.9, 0.8, 0.7; by their two best 1.0, 1.5, 1.3.
  const std::vector<float> logits = {
      logit(0.9f), logit(0.1f), logit(0.8f), logit(0.7f), logit(0.7f), logit(0.6f)};
  RouterArgs args{.top_k = 2, .score = RouterScore::kSigmoid, .groups = 3, .top_groups = 1};
  EXPECT_EQ(run(args, logits).ids, (std::vector<int32_t>{0, 1}));
  args.group_score_top2 = true;
  EXPECT_EQ(run(args, logits).ids, (std::vector<int32_t>{2, 3}));
  args.top_groups = 2;
  args.top_k = 4;
  EXPECT_EQ(run(args, logits).ids, (std::vector<int32_t>{2, 3, 4, 5}));
}

TEST(Route, AMaskedGroupIsOutEvenWhereNegativeBiasesPutTheOthersBelowZero) {
  const std::vector<float> logits = {logit(0.5f), logit(0.4f), logit(0.3f), logit(0.2f)};
  const std::vector<float> bias = {-0.9f, -0.9f, -2.f, -2.f};
  const Routed routed = run({.top_k = 1,
                                .score = RouterScore::kSigmoid,
                                .selection_bias = bias.data(),
                                .groups = 2,
                                .top_groups = 1,
                                .group_score_top2 = true},
      logits);
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{0}));
  expect_near(routed.weights, {0.5f});
}

TEST(Route, NaNIsChosenLast) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Routed routed = run({.top_k = 3, .score = RouterScore::kSoftmaxOfTopK}, {nan, 1.f, nan, 2.f});
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{3, 1, 0}));
}

TEST(Route, TakesNoTokens) { EXPECT_TRUE(run({.top_k = 2}, {}, 0).ids.empty()); }

TEST(Route, ChoosesWhatAFullSortWouldAndKeepsTokensApart) {
  constexpr int64_t kTokens = 33, kExperts = 60, kTopK = 6;
  Philox random(5);
  std::vector<float> logits(kTokens * kExperts);
  for (float& value : logits) value = std::round(4 * random.next_normal()) / 4;  // coarse: many ties
  const RouterArgs args{.top_k = kTopK, .normalize = true};
  const Routed routed = run(args, logits, kTokens);
  for (int64_t token = 0; token < kTokens; ++token) {
    const float* row = logits.data() + token * kExperts;
    std::vector<int32_t> order(kExperts);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return row[a] > row[b]; });
    order.resize(kTopK);
    const auto begin = static_cast<std::ptrdiff_t>(token * kTopK);
    EXPECT_TRUE(std::equal(order.begin(), order.end(), routed.ids.begin() + begin)) << token;
    const Routed alone = run(args, std::vector<float>(row, row + kExperts));
    EXPECT_TRUE(std::equal(alone.weights.begin(), alone.weights.end(), routed.weights.begin() + begin))
        << token;
    EXPECT_NEAR(std::accumulate(alone.weights.begin(), alone.weights.end(), 0.0), 1.0, 1e-6);
  }
}

TEST(OrderByExpert, IsAStableSort) {
  Philox random(9);
  constexpr int64_t kExperts = 7;
  for (const size_t count : {0, 1, 5, 200}) {
    std::vector<int32_t> ids(count);
    for (int32_t& id : ids)
      id = static_cast<int32_t>(random.next_u32() % (kExperts - 1));  // the last gets none
    std::vector<int64_t> expected(count);
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(),
        [&](int64_t a, int64_t b) { return ids[static_cast<size_t>(a)] < ids[static_cast<size_t>(b)]; });
    ExpertOrder order;
    order_by_expert(ids, kExperts, order);
    EXPECT_EQ(order.source, expected);
    ASSERT_EQ(order.offsets.size(), static_cast<size_t>(kExperts) + 1);
    for (int32_t expert = 0; expert < kExperts; ++expert)
      EXPECT_EQ(order.offsets[static_cast<size_t>(expert) + 1] - order.offsets[static_cast<size_t>(expert)],
          std::ranges::count(ids, expert));
  }
}

}  // namespace
}  // namespace cheetah
