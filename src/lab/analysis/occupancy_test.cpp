// SPDX-License-Identifier: MIT
#include "lab/analysis/occupancy.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/error.h"
#include "lab/analysis/launch_advice.h"

namespace cheetah::analysis {
namespace {

struct Vector {
  KernelResources kernel;
  int64_t blocks, warps;
  double percent;
  std::vector<Limiter> limiters;  // at least these
};

// Computed by hand from the allocation rules of compute capability 9.0.
const Vector kVectors[] = {
    {{256, 32, 0}, 8, 64, 100, {Limiter::kRegisters, Limiter::kWarps}},
    {{256, 40, 0}, 6, 48, 75, {Limiter::kRegisters}},
    {{256, 64, 0}, 4, 32, 50, {Limiter::kRegisters}},
    {{256, 128, 0}, 2, 16, 25, {Limiter::kRegisters}},
    {{256, 255, 0}, 1, 8, 12.5, {Limiter::kRegisters}},
    {{1024, 32, 8192}, 2, 64, 100, {Limiter::kRegisters, Limiter::kWarps}},
    {{1024, 33, 8192}, 1, 32, 50, {Limiter::kRegisters}},
    {{32, 32, 0}, 32, 32, 50, {Limiter::kBlockSlots}},
    {{33, 32, 0}, 32, 64, 100, {Limiter::kBlockSlots}},
    {{192, 32, 0}, 10, 60, 93.75, {Limiter::kWarps}},
    {{768, 32, 0}, 2, 48, 75, {Limiter::kWarps}},
    {{128, 64, 49152}, 4, 16, 25, {Limiter::kSharedMemory}},
    {{256, 32, 232448}, 1, 8, 12.5, {Limiter::kSharedMemory}},
};

TEST(Occupancy, HopperAndDataCentreBlackwellGiveTheComputedVectors) {
  for (const char* capability : {"9.0", "10.0"})
    for (const Vector& vector : kVectors) {
      const Occupancy result = occupancy(sm_limits(capability), vector.kernel);
      SCOPED_TRACE(::testing::Message() << vector.kernel.threads << " threads, " << vector.kernel.registers);
      EXPECT_EQ(result.blocks, vector.blocks);
      EXPECT_EQ(result.warps, vector.warps);
      EXPECT_DOUBLE_EQ(100 * result.share, vector.percent);
      for (const Limiter limiter : vector.limiters)
        EXPECT_TRUE(result.limited_by(limiter)) << name_of(limiter);
    }
  EXPECT_NEAR(occupancy(sm_limits("9.0"), {33, 32, 0}).lane_share, 0.516, 0.001);
}

TEST(Occupancy, OtherCardsHoldFewerWarpsAndBlocks) {
  EXPECT_EQ(occupancy(sm_limits("8.6"), {256, 32, 0}).blocks, 6);
  EXPECT_EQ(occupancy(sm_limits("8.9"), {32, 32, 0}).blocks, 24);
  EXPECT_EQ(occupancy(sm_limits("8.6"), {32, 32, 0}).blocks, 16);
  EXPECT_EQ(occupancy(sm_limits("12.0"), {1024, 32, 0}).blocks, 1);
  EXPECT_EQ(occupancy(sm_limits("sm_80"), {256, 32, 48 * 1024}).blocks, 3);
  EXPECT_EQ(occupancy(sm_limits("sm_90a"), {256, 32, 16 * 1024, 64 * 1024}).blocks, 3);
}

TEST(Occupancy, WhatCannotBeLaunchedSaysWhy) {
  const SmLimits& hopper = sm_limits("90");
  EXPECT_NE(occupancy(hopper, {1025, 32, 0}).impossible.find("1024"), std::string::npos);
  EXPECT_NE(occupancy(hopper, {256, 256, 0}).impossible.find("255"), std::string::npos);
  EXPECT_NE(occupancy(hopper, {256, 32, 232449}).impossible.find("232448"), std::string::npos);
  EXPECT_NE(occupancy(hopper, {1024, 65, 0}).impossible.find("registers"), std::string::npos);
  EXPECT_EQ(occupancy(hopper, {0, 32, 0}).blocks, 0);
  EXPECT_NE(occupancy(hopper, {256, 32, 32 * 1024, 16 * 1024}).impossible.find("carved"), std::string::npos);
  EXPECT_THROW(sm_limits("7.0"), UsageError);
  EXPECT_THROW(sm_limits(""), UsageError);
}

TEST(Occupancy, TheNextStepsAreTheNearestThatHelp) {
  const SmLimits& hopper = sm_limits("9.0");
  EXPECT_EQ(next_larger_block(hopper, {32, 32, 0})->kernel.threads, 64);
  EXPECT_EQ(next_smaller_block(hopper, {768, 32, 0})->kernel.threads, 672);  // 3 blocks of 21 warps
  EXPECT_EQ(fewer_registers(hopper, {256, 40, 0})->kernel.registers, 32);
  EXPECT_EQ(less_shared_memory(hopper, {128, 64, 49152})->kernel.shared_bytes, 45568);
  EXPECT_FALSE(next_larger_block(hopper, {256, 32, 0}));
  EXPECT_FALSE(fewer_registers(hopper, {256, 32, 0}));
}

TEST(Occupancy, LaunchBoundsGiveARegisterCapOrAreImpossible) {
  const SmLimits& hopper = sm_limits("9.0");
  EXPECT_EQ(launch_bounds_cap(hopper, 256, 8), 32);
  EXPECT_EQ(launch_bounds_cap(hopper, 256, 1), 255);
  EXPECT_EQ(launch_bounds_cap(hopper, 384, 1), 168);
  EXPECT_FALSE(launch_bounds_cap(hopper, 256, 16));
  EXPECT_FALSE(launch_bounds_cap(sm_limits("8.9"), 1024, 2));
}

TEST(Occupancy, LessOfAResourceNeverFitsFewerBlocks) {
  EXPECT_TRUE(rc::check("monotone", [](uint16_t threads, uint8_t registers, uint32_t shared) {
    const KernelResources kernel{threads % 1024 + 1, registers, shared % 232449};
    for (const SmLimits& sm : known_sm_limits()) {
      const Occupancy now = occupancy(sm, kernel);
      RC_ASSERT(now.warps <= sm.max_warps && now.blocks <= sm.max_blocks);
      RC_ASSERT((now.blocks > 0) == now.impossible.empty());
      KernelResources less = kernel;
      less.registers /= 2, less.shared_bytes /= 2;
      RC_ASSERT(occupancy(sm, less).blocks >= now.blocks);
    }
  }));
}

const Advice* find(const LaunchReport& report, std::string_view part) {
  for (const Advice& advice : report.advice)
    if (advice.what.find(part) != std::string::npos) return &advice;
  return nullptr;
}

TEST(LaunchAdvice, AGoodLaunchHasNothingBad) {
  const LaunchReport report = advise(sm_limits("9.0"), {.kernel = {256, 32, 0}, .elements = 1 << 28});
  EXPECT_EQ(report.launch.grid_x, 1 << 20);
  for (const Advice& advice : report.advice) EXPECT_EQ(advice.level, Advice::Level::kGood) << advice.what;
}

TEST(LaunchAdvice, MistakesAreNamed) {
  const SmLimits& hopper = sm_limits("9.0");
  LaunchReport report = advise(hopper, {.kernel = {33, 32, 0}, .grid_x = 10, .elements = 1000});
  EXPECT_EQ(find(report, "lanes")->level, Advice::Level::kBad);
  EXPECT_EQ(find(report, "covers 330 of 1000")->level, Advice::Level::kBad);
  EXPECT_EQ(find(report, "10 blocks for 132 SMs")->level, Advice::Level::kBad);
  report = advise(hopper,
      {.kernel = {256, 32, 0}, .grid_x = 1, .grid_y = 70000, .bounds_threads = 256, .bounds_blocks = 16});
  EXPECT_EQ(find(report, "65535")->level, Advice::Level::kBad);
  EXPECT_EQ(find(report, "ignores")->level, Advice::Level::kBad);
  report = advise(hopper, {.kernel = {256, 32, 0}, .grid_x = 1057});  // one block more than a wave
  EXPECT_NEAR(report.tail_idle_share, 0.4995, 0.001);
}

}  // namespace
}  // namespace cheetah::analysis
