// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "kernels/attention/cuda/mma.h"

namespace cheetah::gpu {
namespace {

DeviceInfo card(int major, int64_t shared_kib) {
  DeviceInfo device;
  device.compute_major = major;
  device.shared_bytes_per_block = shared_kib << 10;
  return device;
}

AttentionArgs<Bf16> args_of(int64_t key_dim, int64_t value_dim, std::byte* values) {
  AttentionArgs<Bf16> args;
  args.heads = 16;
  args.q_stride = 16 * key_dim;
  args.out_stride = 16 * value_dim;
  args.kv.dtype = DType::kBF16;
  args.kv.values = values;
  args.kv.kv_heads = 1;
  args.kv.key_dim = key_dim;
  args.kv.value_dim = value_dim;
  return args;
}

TEST(MmaPlanTest, TakesHeadsUpTo256AndLatentRows) {
  std::byte values[1];
  const DeviceInfo a100 = card(8, 163);
  for (const int64_t dim : {8, 40, 64, 80, 96, 128, 192, 256})
    EXPECT_TRUE(mma_attention_fits(args_of(dim, dim, values), a100)) << dim;
  EXPECT_TRUE(mma_attention_fits(args_of(192, 128, values), a100));
  EXPECT_TRUE(mma_attention_fits(args_of(576, 512, nullptr), a100));
  EXPECT_FALSE(mma_attention_fits(args_of(264, 264, values), a100));
  EXPECT_FALSE(mma_attention_fits(args_of(36, 36, values), a100));
  EXPECT_FALSE(mma_attention_fits(args_of(640, 512, nullptr), a100));
  EXPECT_FALSE(mma_attention_fits(args_of(128, 128, values), card(7, 96)));
  AttentionArgs<Bf16> args = args_of(128, 128, values);
  args.kv.dtype = DType::kF16;
  EXPECT_FALSE(mma_attention_fits(args, a100));
}

TEST(MmaPlanTest, TilesFitTheCardsTheyAreFor) {
  std::byte values[1];
  const PagedKv latent = args_of(576, 512, nullptr).kv, heads = args_of(256, 256, values).kv;
  for (const PagedKv& kv : {latent, heads}) {
    EXPECT_LE(mma::shared_bytes(kv, mma::Tile::kFew), 99 << 10);       // Ada
    EXPECT_LE(mma::shared_bytes(kv, mma::Tile::kManyLow), 163 << 10);  // A100
    EXPECT_LE(mma::shared_bytes(kv, mma::Tile::kMany), 227 << 10);     // Hopper
  }
}

}  // namespace
}  // namespace cheetah::gpu
