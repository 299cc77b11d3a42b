#include <gtest/gtest.h>

#include "kernels/gemm/cuda/hopper.h"

namespace cheetah::gpu {
namespace {

TEST(HopperGemmPlanTest, SplitsSmallProductsOnly) {
  EXPECT_EQ(skinny_splits(32, 132), 4);   // 4096 outputs
  EXPECT_EQ(skinny_splits(48, 132), 4);   // 6144
  EXPECT_EQ(skinny_splits(224, 132), 1);  // 28672
  EXPECT_EQ(skinny_splits(1, 132), 8);
}

}  // namespace
}  // namespace cheetah::gpu
