// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "kernels/attention/cuda/hopper.h"

namespace cheetah::gpu {
namespace {

TEST(HopperPlanTest, SplitsFillTheCardWithoutCuttingTooFine) {
  EXPECT_EQ(decode_splits(64, 8, 4096, 132), 1);
  EXPECT_EQ(decode_splits(1, 8, 16384, 132), 32);
  EXPECT_EQ(decode_splits(1, 8, 512, 132), 2);
  EXPECT_EQ(decode_splits(1, 1, 10, 132), 1);
  EXPECT_EQ(decode_splits(0, 8, 0, 132), 1);
}

TEST(HopperPlanTest, TakesOnlyWhatItsKernelsCompute) {
  DeviceInfo h200, a100;
  h200.compute_major = 9;
  a100.compute_major = 8;
  std::byte memory[1];
  AttentionArgs<Bf16> args;
  args.q_stride = args.out_stride = 512;
  args.heads = 4;
  args.kv.dtype = DType::kBF16;
  args.kv.keys = args.kv.values = memory;
  args.kv.kv_heads = 2;
  args.kv.key_dim = args.kv.value_dim = 128;
  EXPECT_TRUE(hopper_attention_fits(args, h200));
  EXPECT_FALSE(hopper_attention_fits(args, a100));
  args.kv.page_tokens = 24;
  EXPECT_FALSE(hopper_attention_fits(args, h200));
  args.kv.page_tokens = 16;
  args.kv.values = nullptr;  // MLA
  EXPECT_FALSE(hopper_attention_fits(args, h200));
}

}  // namespace
}  // namespace cheetah::gpu
