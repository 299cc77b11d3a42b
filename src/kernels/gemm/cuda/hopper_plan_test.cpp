#include <gtest/gtest.h>

#include "kernels/gemm/cuda/hopper.h"
#include "kernels/gemm/cuda/tuned.h"

namespace cheetah::gpu {
namespace {

TEST(HopperGemmPlanTest, SplitsSmallProductsOnly) {
  EXPECT_EQ(skinny_splits(32, 132), 4);   // 4096 outputs
  EXPECT_EQ(skinny_splits(48, 132), 4);   // 6144
  EXPECT_EQ(skinny_splits(224, 132), 1);  // 28672
  EXPECT_EQ(skinny_splits(1, 132), 8);
}

TEST(HopperGemmPlanTest, ReadsWeightsAgainRatherThanLeaveTheCardIdle) {
  const auto prefers = [](int64_t m, int64_t n, int64_t k) {
    return prefers_skinny({.m = m, .n = n, .k = k}, 132);
  };
  for (const int64_t m : {1, 64}) EXPECT_TRUE(prefers(m, 28672, 4096));
  EXPECT_TRUE(prefers(96, 4096, 4096));
  EXPECT_TRUE(prefers(128, 4096, 14336));
  EXPECT_FALSE(prefers(128, 28672, 4096));
  EXPECT_FALSE(prefers(512, 4096, 14336));
  EXPECT_FALSE(prefers(8192, 4096, 4096));
}

TEST(HopperGemmPlanTest, TakesTheMeasuredVariantOnTheCardItWasMeasuredOnAlone) {
  DeviceInfo device;
  device.name = "NVIDIA H200";
  const auto variant = [&](DType dtype, int64_t m, int64_t n, int64_t k) {
    return tuned_variant({.dtype = dtype, .n = n, .k = k, .m = m}, device);
  };
  EXPECT_EQ(variant(DType::kBF16, 1, 4096, 4096), "hopper_skinny");
  EXPECT_EQ(variant(DType::kBF16, 128, 4096, 4096), "hopper_skinny");
  EXPECT_EQ(variant(DType::kBF16, 129, 4096, 4096), "hopper_tiles");
  EXPECT_EQ(variant(DType::kF8E4M3, 65, 28672, 4096), "hopper_fp8_tiles");
  EXPECT_EQ(variant(DType::kBF16, 8192, 4096, 4096), "") << "not measured";
  EXPECT_EQ(variant(DType::kBF16, 1, 4096, 4095), "");
  device.name = "NVIDIA H100";
  EXPECT_EQ(variant(DType::kBF16, 1, 4096, 4096), "");
}

}  // namespace
}  // namespace cheetah::gpu
