// SPDX-License-Identifier: MIT
#include "model/rope_scaling.h"

#include <gtest/gtest.h>

#include <cmath>

namespace cheetah {
namespace {

TEST(RopeScaling, PlainFrequenciesArePowersOfTheta) {
  const RopeTraits rope = make_rope({.theta = 10000.0, .rotary_dim = 8});
  ASSERT_EQ(rope.inv_freq.size(), 4u);
  EXPECT_FLOAT_EQ(rope.inv_freq[0], 1.f);
  EXPECT_FLOAT_EQ(rope.inv_freq[1], 0.1f);
  EXPECT_FLOAT_EQ(rope.inv_freq[2], 0.01f);
  EXPECT_FLOAT_EQ(rope.inv_freq[3], 0.001f);
  EXPECT_EQ(rope.magnitude, 1.f);
}

TEST(RopeScaling, LinearDividesEveryFrequency) {
  const RopeTraits rope =
      make_rope({.scaling = RopeScaling::kLinear, .theta = 10000.0, .rotary_dim = 8, .factor = 4.0});
  EXPECT_FLOAT_EQ(rope.inv_freq[0], 0.25f);
  EXPECT_FLOAT_EQ(rope.inv_freq[3], 0.00025f);
}

TEST(RopeScaling, Llama3KeepsShortWavesDividesLongOnesAndBlendsBetween) {
  // Waves of 2*pi*{1, 10, 100, 1000} = {6.28, 62.8, 628, 6283} positions in a context of 256: shorter than
  // 256 / 4 stay, longer than 256 / 1 are divided by 8.
  RopeConfig config{.scaling = RopeScaling::kLlama3, .theta = 10000.0, .rotary_dim = 8, .factor = 8.0};
  config.original_context = 256;
  const RopeTraits rope = make_rope(config);
  EXPECT_FLOAT_EQ(rope.inv_freq[0], 1.f);
  EXPECT_FLOAT_EQ(rope.inv_freq[1], 0.1f);
  EXPECT_FLOAT_EQ(rope.inv_freq[2], 0.01f / 8.f);
  EXPECT_FLOAT_EQ(rope.inv_freq[3], 0.001f / 8.f);
  config.original_context = 1024;  // 1024 / 628.3 = 1.6297: a fifth of the way from 1 to 4
  const double smooth = (1024.0 / (200.0 * M_PI) - 1.0) / 3.0;
  EXPECT_NEAR(make_rope(config).inv_freq[2], 0.01 * ((1 - smooth) / 8.0 + smooth), 1e-8);
}

TEST(RopeScaling, YarnRampsBetweenTheDimensionsThatTurnFastAndSlowEnough) {
  RopeConfig config{.scaling = RopeScaling::kYarn, .theta = 10000.0, .rotary_dim = 8, .factor = 4.0};
  config.original_context = 1024;
  // 8 ln(1024 / (32 * 2 pi)) / (2 ln 10000) = 0.707 and 8 ln(1024 / (2 pi)) / (2 ln 10000) = 2.212.
  const RopeTraits rounded = make_rope(config);  // ramp from 0 to 3
  EXPECT_FLOAT_EQ(rounded.inv_freq[0], 1.f);
  EXPECT_NEAR(rounded.inv_freq[1], 0.1 * (1.0 / 3 / 4 + 2.0 / 3), 1e-7);
  EXPECT_NEAR(rounded.inv_freq[3], 0.001 / 4, 1e-9);
  EXPECT_NEAR(rounded.magnitude, 0.1 * std::log(4.0) + 1.0, 1e-6);
  config.truncate = false;
  const double low = 4 * std::log(1024 / (64 * M_PI)) / std::log(10000.0);
  const double high = 4 * std::log(1024 / (2 * M_PI)) / std::log(10000.0);
  const double ramp = (1 - low) / (high - low);
  EXPECT_NEAR(make_rope(config).inv_freq[1], 0.1 * (ramp / 4 + 1 - ramp), 1e-7);
}

TEST(RopeScaling, YarnTakesItsMagnitudeFromTheConfigFirst) {
  RopeConfig config{.scaling = RopeScaling::kYarn, .rotary_dim = 8, .factor = 40.0};
  config.original_context = 4096;
  config.mscale = 1.0;
  config.mscale_all_dim = 0.5;
  const double expected = (0.1 * std::log(40.0) + 1) / (0.05 * std::log(40.0) + 1);
  EXPECT_NEAR(make_rope(config).magnitude, expected, 1e-6);
  config.attention_factor = 1.5;
  EXPECT_FLOAT_EQ(make_rope(config).magnitude, 1.5f);
}

TEST(RopeScaling, LongropeHasTwoSetsOfFrequenciesAndOneMagnitude) {
  RopeConfig config{.scaling = RopeScaling::kLongrope, .theta = 10000.0, .rotary_dim = 4, .factor = 16.0};
  config.original_context = 4096;
  config.short_factors = {1.0, 2.0};
  config.long_factors = {4.0, 8.0};
  const RopeTraits rope = make_rope(config);
  EXPECT_FLOAT_EQ(rope.inv_freq[1], 0.005f);
  EXPECT_FLOAT_EQ(rope.long_inv_freq[0], 0.25f);
  EXPECT_NEAR(rope.magnitude, std::sqrt(1 + std::log(16.0) / std::log(4096.0)), 1e-6);
}

TEST(RopeScaling, CachedKeysGoStaleOnlyWhereLongropeSwitches) {
  ModelTraits traits;
  EXPECT_FALSE(rope_changes(traits, 10, 1000));
  traits.rope.long_inv_freq = {1.f};
  traits.rope.original_context = 100;
  EXPECT_FALSE(rope_changes(traits, 0, 1000));  // nothing cached yet
  EXPECT_FALSE(rope_changes(traits, 99, 100));
  EXPECT_TRUE(rope_changes(traits, 100, 101));
  EXPECT_FALSE(rope_changes(traits, 101, 102));
}

}  // namespace
}  // namespace cheetah
