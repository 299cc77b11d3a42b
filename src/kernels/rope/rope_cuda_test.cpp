// SPDX-License-Identifier: MIT
#include "kernels/rope/rope_cuda.h"

#include <gtest/gtest.h>

#include "kernels/cuda/device_case.h"

namespace cheetah::gpu {
namespace {

template <class T>
class RopeCuda : public testing::Test {};
using Numbers = testing::Types<float, Bf16>;
TYPED_TEST_SUITE(RopeCuda, Numbers);

TYPED_TEST(RopeCuda, TurnsLikeTheReferenceAtEveryPosition) {
  const std::vector<int32_t> positions = {0, 1, 17, 4095, 100000, 1000000, 3};
  for (const RopeLayout layout : {RopeLayout::kHalves, RopeLayout::kInterleaved})
    for (const int64_t half : {0, 1, 5, 64, 200})
      for (const int64_t heads : {1, 3, 32}) {
        SCOPED_TRACE(testing::Message() << half << " pairs, " << heads << " heads");
        DeviceCase device;
        const int64_t head_dim = 2 * half + 3, stride = heads * head_dim + 1;
        std::vector<float> inv_freq;
        for (int64_t i = 0; i < half; ++i)
          inv_freq.push_back(std::pow(10000.f, -static_cast<float>(i) / static_cast<float>(half)));
        std::vector<float> x = rounded_to<TypeParam>(normal_numbers(std::ssize(positions) * stride, 6));
        TypeParam* data = device.upload(numbers_as<TypeParam>(x));
        rope<TypeParam>({.x = data,
                            .token_stride = stride,
                            .head_stride = head_dim,
                            .tokens = std::ssize(positions),
                            .heads = heads,
                            .positions = device.upload(positions),
                            .angles = {.inv_freq = device.upload(inv_freq),
                                .half = half,
                                .magnitude = 1.2f,
                                .layout = layout}},
            device.stream());
        rope_reference({.x = x.data(),
            .token_stride = stride,
            .head_stride = head_dim,
            .heads = heads,
            .positions = positions,
            .inv_freq = inv_freq,
            .magnitude = 1.2f,
            .layout = layout});
        const auto actual = device.download(data, std::ssize(x));
        for (size_t i = 0; i < x.size(); ++i)
          ASSERT_NEAR(to_float(actual[i]), x[i], 3e-6 + rounding_of<TypeParam>() * std::abs(x[i])) << i;
      }
}

TYPED_TEST(RopeCuda, TurnsLongSequencesByTheirOwnFrequencies) {
  DeviceCase device;
  const std::vector<float> x = rounded_to<TypeParam>(normal_numbers(3 * 8, 7)),
                           near = {1.f, 0.1f, 0.01f, 0.001f}, far = {0.5f, 0.05f, 0.005f, 0.0005f};
  const std::vector<int32_t> positions = {5, 5, 9}, uses_long = {0, 1, 1};
  TypeParam* data = device.upload(numbers_as<TypeParam>(x));
  rope<TypeParam>({.x = data,
                      .token_stride = 8,
                      .head_stride = 8,
                      .tokens = 3,
                      .heads = 1,
                      .positions = device.upload(positions),
                      .angles = {.inv_freq = device.upload(near),
                          .long_inv_freq = device.upload(far),
                          .uses_long = device.upload(uses_long),
                          .half = 4,
                          .magnitude = 1.f,
                          .long_magnitude = 1.5f}},
      device.stream());
  const auto actual = device.download(data, 24);
  for (size_t row = 0; row < 3; ++row) {
    std::vector<float> expected(
        x.begin() + static_cast<ptrdiff_t>(row) * 8, x.begin() + static_cast<ptrdiff_t>(row) * 8 + 8);
    rope_reference({.x = expected.data(),
        .token_stride = 8,
        .head_stride = 8,
        .heads = 1,
        .positions = {&positions[row], 1},
        .inv_freq = uses_long[row] ? far : near,
        .magnitude = uses_long[row] ? 1.5f : 1.f});
    for (size_t i = 0; i < 8; ++i)
      ASSERT_NEAR(to_float(actual[row * 8 + i]), expected[i],
          3e-6 + rounding_of<TypeParam>() * std::abs(expected[i]));
  }
}

}  // namespace
}  // namespace cheetah::gpu
