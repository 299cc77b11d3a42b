// SPDX-License-Identifier: MIT
#include "kernels/moe/moe_cuda.h"

#include <gtest/gtest.h>

#include "kernels/cuda/device_case.h"

namespace cheetah::gpu {
namespace {

void check_route(RouterArgs args, const std::vector<float>& bias) {
  SCOPED_TRACE(testing::Message() << args.tokens << " tokens, " << args.experts << " experts, top "
                                  << args.top_k << ", groups " << args.groups);
  const std::vector<float> logits = normal_numbers(args.tokens * args.experts, 13, 2.f);
  const auto routed = static_cast<size_t>(args.tokens * args.top_k);
  std::vector<int32_t> ids(routed);
  std::vector<float> weights(routed);
  args.logits = logits.data();
  args.selection_bias = bias.empty() ? nullptr : bias.data();
  cheetah::route(args, ids, weights);
  DeviceCase device;
  args.logits = device.upload(logits);
  args.selection_bias = bias.empty() ? nullptr : device.upload(bias);
  int32_t* device_ids = device.upload(std::vector<int32_t>(routed, -1));
  float* device_weights = device.poisoned<float>(std::ssize(weights));
  route(args, device_ids, device_weights, device.stream());
  EXPECT_EQ(device.download(device_ids, std::ssize(ids)), ids);
  const std::vector<float> actual = device.take(device_weights, std::ssize(weights));
  expect_close(actual.data(), weights.data(), std::ssize(weights), 1e-7, 2e-6);
}

TEST(MoeCuda, ChoosesAndWeighsLikeTheCpu) {
  for (const RouterScore score : {RouterScore::kSoftmax, RouterScore::kSigmoid, RouterScore::kSoftmaxOfTopK})
    for (const bool normalize : {false, true})
      for (const auto& [experts, top_k] :
          {std::pair<int64_t, int64_t>{1, 1}, {4, 2}, {33, 5}, {256, 8}, {64, 64}})
        check_route({.tokens = 17,
                        .experts = experts,
                        .top_k = top_k,
                        .score = score,
                        .normalize = normalize,
                        .normalize_floor = 1e-20f,
                        .scale = 2.5f},
            {});
}

TEST(MoeCuda, LimitsTheChoiceToTheBestGroups) {
  for (const bool top2 : {false, true}) {
    const RouterArgs args{.tokens = 40,
        .experts = 64,
        .top_k = 6,
        .score = RouterScore::kSigmoid,
        .normalize = true,
        .groups = 8,
        .top_groups = 3,
        .group_score_top2 = top2};
    check_route(args, {});
    check_route(args, normal_numbers(64, 14));
  }
}

TEST(MoeCuda, OrdersChoicesByExpertLikeTheCpu) {
  for (const auto& [count, experts] : {std::pair<int64_t, int64_t>{0, 4}, {1, 1}, {1000, 7}, {5000, 300}}) {
    Philox random(15);
    std::vector<int32_t> ids(static_cast<size_t>(count));
    for (int32_t& id : ids) id = static_cast<int32_t>(random.next_u32() % static_cast<uint32_t>(experts));
    cheetah::ExpertOrder expected;
    cheetah::order_by_expert(ids, experts, expected);
    DeviceCase device;
    const ExpertOrder order{
        .offsets = device.upload(std::vector<int32_t>(static_cast<size_t>(experts + 1), -1)),
        .source = device.upload(std::vector<int32_t>(ids.size(), -1)),
        .row_of = device.upload(std::vector<int32_t>(ids.size(), -1))};
    order_by_expert(device.upload(ids), count, experts, order, device.stream());
    const auto offsets = device.download(order.offsets, experts + 1),
               source = device.download(order.source, count), row_of = device.download(order.row_of, count);
    EXPECT_TRUE(std::equal(offsets.begin(), offsets.end(), expected.offsets.begin(), expected.offsets.end()));
    EXPECT_TRUE(std::equal(source.begin(), source.end(), expected.source.begin(), expected.source.end()));
    for (size_t i = 0; i < row_of.size(); ++i)
      EXPECT_EQ(source[static_cast<size_t>(row_of[i])], static_cast<int32_t>(i));
  }
}

template <class T>
class CombineCuda : public testing::Test {};
using Numbers = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(CombineCuda, Numbers);

TYPED_TEST(CombineCuda, AddsEachTokensChoicesByWeight) {
  constexpr int64_t kTokens = 5, kTopK = 2, kCols = 70;
  DeviceCase device;
  const std::vector<int32_t> row_of = {9, 0, 1, 8, 2, 7, 3, 6, 4, 5};
  const std::vector<float> out = rounded_to<TypeParam>(normal_numbers(kTokens * kTopK * kCols, 16));
  const std::vector<float> weights = normal_numbers(kTokens * kTopK, 17);
  const std::vector<float> y = rounded_to<TypeParam>(normal_numbers(kTokens * kCols, 18));
  TypeParam* data = device.upload(numbers_as<TypeParam>(y));
  combine_experts<TypeParam>({.out = device.upload(numbers_as<TypeParam>(out)),
                                 .row_of = device.upload(row_of),
                                 .weights = device.upload(weights),
                                 .tokens = kTokens,
                                 .top_k = kTopK,
                                 .cols = kCols,
                                 .y = data},
      device.stream());
  const auto actual = device.download(data, kTokens * kCols);
  for (size_t i = 0; i < y.size(); ++i) {
    const size_t token = i / kCols, col = i % kCols;
    double expected = y[i];
    for (size_t at = token * kTopK; at < (token + 1) * kTopK; ++at)
      expected += static_cast<double>(weights[at]) * out[static_cast<size_t>(row_of[at]) * kCols + col];
    ASSERT_NEAR(to_float(actual[i]), expected, 2e-6 + rounding_of<TypeParam>() * std::abs(expected));
  }
}

}  // namespace
}  // namespace cheetah::gpu
