// SPDX-License-Identifier: MIT
#include "kernels/rope/rope.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/random.h"
#include "kernels/every_target.h"
#include "kernels/guarded.h"

namespace cheetah {
namespace {

std::vector<float> frequencies(int64_t half, float base = 10000.f) {
  std::vector<float> inv_freq;
  for (int64_t i = 0; i < half; ++i)
    inv_freq.push_back(std::pow(base, -static_cast<float>(i) / static_cast<float>(half)));
  return inv_freq;
}

struct RopeShape {
  int64_t tokens, heads, head_dim, half;
};
const std::vector<RopeShape> kShapes = {{0, 2, 8, 4}, {1, 1, 2, 1}, {1, 3, 64, 32}, {5, 2, 80, 16},
    {3, 1, 10, 5}, {9, 3, 70, 35}, {130, 4, 128, 64}};

void fill(Guarded& values, uint64_t seed) {
  Philox random(seed);
  for (int64_t i = 0; i < values.size(); ++i) values.data()[i] = random.next_normal();
}

TEST(Rope, EveryTargetEqualsTheReference) {
  ThreadPool pool({.num_threads = 2, .pin = false});
  for_every_target([&] {
    for (const RopeShape& shape : kShapes)
      for (const RopeLayout layout : {RopeLayout::kHalves, RopeLayout::kInterleaved}) {
        SCOPED_TRACE(testing::Message() << shape.tokens << " tokens, half " << shape.half);
        const std::vector<float> inv_freq = frequencies(shape.half);
        std::vector<int32_t> positions;
        for (int64_t i = 0; i < shape.tokens; ++i)
          positions.push_back(static_cast<int32_t>(i * i * 53 % 1000003));
        const int64_t count = shape.tokens * shape.heads * shape.head_dim;
        Guarded actual(count), expected(count);
        fill(actual, 4);
        fill(expected, 4);
        RopeArgs args{.x = actual.data(),
            .token_stride = shape.heads * shape.head_dim,
            .head_stride = shape.head_dim,
            .heads = shape.heads,
            .positions = positions,
            .inv_freq = inv_freq,
            .magnitude = 1.25f,
            .layout = layout};
        rope(args, CpuContext{pool});
        args.x = expected.data();
        rope_reference(args);
        actual.expect_guards_whole();
        // Cosine and sine rounded and scaled (2 ulp), two products and a sum of numbers up to 1.25 * 5.
        expect_close(actual.data(), expected.data(), count, 5 * 1.25 * 4 * 0x1p-24, 0);
      }
  });
}

TEST(Rope, DimensionsBeyondTheRotaryPartStayUntouched) {
  ThreadPool pool({.num_threads = 1});
  const std::vector<float> inv_freq = frequencies(5);
  const std::vector<int32_t> positions = {7};
  Guarded x(40), before(40);
  fill(x, 1);
  fill(before, 1);
  rope({.x = x.data(),
           .token_stride = 40,
           .head_stride = 20,
           .heads = 2,
           .positions = positions,
           .inv_freq = inv_freq},
      CpuContext{pool});
  for (const int64_t head : {0, 1})
    EXPECT_EQ(std::memcmp(x.data() + head * 20 + 10, before.data() + head * 20 + 10, 10 * sizeof(float)), 0);
}

TEST(Rope, ATokensAnglesDoNotDependOnTheOthers) {
  ThreadPool one({.num_threads = 1}), three({.num_threads = 3, .pin = false});
  constexpr int64_t kTokens = 700, kRow = 2 * 46;
  const std::vector<float> inv_freq = frequencies(23);
  std::vector<int32_t> positions;
  for (int32_t i = 0; i < kTokens; ++i) positions.push_back(i);
  Guarded together(kTokens * kRow), apart(kTokens * kRow);
  fill(together, 6);
  fill(apart, 6);
  RopeArgs args{.x = together.data(),
      .token_stride = kRow,
      .head_stride = 46,
      .heads = 2,
      .positions = positions,
      .inv_freq = inv_freq};
  rope(args, CpuContext{three});
  for (size_t token = 0; token < kTokens; ++token) {
    args.x = apart.data() + static_cast<int64_t>(token) * kRow;
    args.positions = std::span(positions).subspan(token, 1);
    rope(args, CpuContext{one});
  }
  EXPECT_EQ(std::memcmp(together.data(), apart.data(), kTokens * kRow * sizeof(float)), 0);
}

TEST(Rope, AQuarterTurnIsWhatItShouldBe) {
  ThreadPool pool({.num_threads = 1});
  const std::vector<float> inv_freq = {1.57079632679f};
  const std::vector<int32_t> positions = {1};
  std::vector<float> x = {3.f, 4.f};
  rope({.x = x.data(),
           .token_stride = 2,
           .head_stride = 2,
           .heads = 1,
           .positions = positions,
           .inv_freq = inv_freq},
      CpuContext{pool});
  EXPECT_NEAR(x[0], -4.f, 1e-6f);
  EXPECT_NEAR(x[1], 3.f, 1e-6f);
}

}  // namespace
}  // namespace cheetah
