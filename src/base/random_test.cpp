// SPDX-License-Identifier: MIT
#include "base/random.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

TEST(Philox, MatchesThePublishedVector) {
  // Random123's known answer for a zero key and counter.
  EXPECT_EQ(philox_at(0, 0, 0), 0x6627e8d5u);
  EXPECT_EQ(philox_at(0, 0, 1), 0xe169c58du);
  EXPECT_EQ(philox_at(0, 0, 2), 0xbc57ac4cu);
  EXPECT_EQ(philox_at(0, 0, 3), 0x9b00dbd8u);
}

TEST(Philox, ResumesFromItsCounter) {
  Philox whole(7, 3);
  for (int i = 0; i < 5; ++i) whole.next_u32();
  Philox resumed(7, 3, whole.counter());
  EXPECT_EQ(whole.next_u32(), resumed.next_u32());
}

TEST(Philox, UniformAndNormalHaveTheirMoments) {
  Philox random(42);
  double uniform_sum = 0, normal_sum = 0, normal_squares = 0;
  constexpr int kSamples = 20000;
  for (int i = 0; i < kSamples; ++i) {
    uniform_sum += random.next_uniform();
    const double normal = random.next_normal();
    normal_sum += normal;
    normal_squares += normal * normal;
  }
  EXPECT_NEAR(uniform_sum / kSamples, 0.5, 0.01);
  EXPECT_NEAR(normal_sum / kSamples, 0.0, 0.03);
  EXPECT_NEAR(normal_squares / kSamples, 1.0, 0.05);
}

}  // namespace
}  // namespace cheetah
