// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "kernels/gemm/cuda/hopper.h"
#include "kernels/gemm/cuda/tuned.h"

namespace cheetah::gpu {
namespace {

TEST(HopperGemmPlanTest, SplitsSmallProductsOnly) {
  EXPECT_EQ(skinny_splits(32, 64, 132), 4);   // 4096 outputs
  EXPECT_EQ(skinny_splits(32, 224, 132), 8);  // and a long inner dimension
  EXPECT_EQ(skinny_splits(48, 64, 132), 4);   // 6144
  EXPECT_EQ(skinny_splits(224, 64, 132), 1);  // 28672
  EXPECT_EQ(skinny_splits(1, 64, 132), 8);
}

TEST(HopperGemmPlanTest, SharesTilesOutWhereTheyDoNotFillTheCard) {
  const auto plan = [](int64_t m, int64_t n, int64_t k) { return plan_tiles({.m = m, .n = n, .k = k}, 132); };
  for (const int64_t m : {2048, 4096, 8192}) {
    EXPECT_EQ(plan(m, 28672, 4096).splits, 1);
    EXPECT_FALSE(plan(m, 28672, 4096).beside);
  }
  EXPECT_TRUE(plan(128, 28672, 4096).beside) << "one row of tiles";
  EXPECT_EQ(plan(512, 4096, 14336).splits, 2) << "64 tiles";
  EXPECT_FALSE(plan(512, 4096, 14336).narrow);
  for (const int64_t m : {80, 128, 256}) EXPECT_TRUE(plan(m, 4096, 14336).narrow) << "at most 64 narrow ones";
  EXPECT_EQ(plan(1024, 6144, 4096).splits, 2) << "three halves rather than two wholes";
  EXPECT_EQ(plan(256, 4096, 128).splits, 1) << "nothing to share";
  EXPECT_EQ(
      plan_tiles({.dtype = DType::kF8E4M3, .m = 256, .n = 4096, .k = 4096, .block_scales = true}, 132).splits,
      1);
}

TEST(HopperGemmPlanTest, ReadsWeightsAgainRatherThanLeaveTheCardIdle) {
  const auto prefers = [](int64_t m, int64_t n, int64_t k) {
    return prefers_skinny({.m = m, .n = n, .k = k}, 132);
  };
  for (const int64_t m : {1, 64}) EXPECT_TRUE(prefers(m, 28672, 4096));
  EXPECT_TRUE(prefers(96, 512, 4096));
  for (const int64_t m : {96, 128, 512, 8192}) EXPECT_FALSE(prefers(m, 4096, 14336)) << m;
  EXPECT_FALSE(prefers(128, 28672, 4096));
}

TEST(HopperGemmPlanTest, TakesTheMeasuredVariantOnTheCardItWasMeasuredOnAlone) {
  DeviceInfo device;
  device.name = "NVIDIA H200";
  const auto variant = [&](DType dtype, int64_t m, int64_t n, int64_t k) {
    return tuned_variant({.dtype = dtype, .n = n, .k = k, .m = m}, device);
  };
  EXPECT_EQ(variant(DType::kBF16, 1, 4096, 4096), "hopper_skinny");
  EXPECT_EQ(variant(DType::kBF16, 16, 4096, 4096), "hopper_skinny");
  EXPECT_EQ(variant(DType::kBF16, 17, 4096, 4096), "cublaslt");
  EXPECT_EQ(variant(DType::kBF16, 193, 4096, 4096), "hopper_tiles");
  EXPECT_EQ(variant(DType::kF8E4M3, 65, 28672, 4096), "hopper_fp8_tiles");
  EXPECT_EQ(variant(DType::kBF16, 8192, 4096, 4096), "") << "not measured";
  EXPECT_EQ(variant(DType::kBF16, 1, 4096, 4095), "");
  device.name = "NVIDIA H100";
  EXPECT_EQ(variant(DType::kBF16, 1, 4096, 4096), "");
}

}  // namespace
}  // namespace cheetah::gpu
