// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include "kernels/decode_chain/cuda/chain_ops.h"
#include "kernels/decode_chain/decode_chain.h"

namespace cheetah::gpu {
namespace {

constexpr int kH200 = 132;

int64_t highest_pile(const ChainTiling& t) { return (t.tiles + kH200 - 1) / kH200 * t.box_rows; }

TEST(ChainTiling, TheProductsOfAn8bModelFillTheCardInOneWave) {
  const ChainTiling o = tile_product(4096, false, kH200);
  EXPECT_EQ(o.box_rows, 32);
  EXPECT_EQ(o.tiles, 128);
  EXPECT_EQ(o.k_ways, 4);
  const ChainTiling qkv = tile_product(6144, false, kH200);
  EXPECT_EQ(qkv.box_rows, 48);
  EXPECT_EQ(qkv.tiles, 128);
  EXPECT_EQ(qkv.k_ways, 2);
  const ChainTiling gate_up = tile_product(14336, true, kH200);
  EXPECT_EQ(gate_up.box_rows, 56);
  EXPECT_EQ(gate_up.tiles, 128);
  const ChainTiling head = tile_product(128256, false, kH200);
  EXPECT_EQ(head.box_rows, 32)
      << "not 16, though that pile is a sixtieth lower: half of the warps would idle";
  EXPECT_EQ(head.boxes_per_stage, 7);
}

TEST(ChainTiling, TilesCoverEveryOutputAndFitAStage) {
  for (int64_t outputs = 8; outputs < 40000; outputs += 8 * (1 + outputs / 64))
    for (const bool gated : {false, true}) {
      const ChainTiling t = tile_product(outputs, gated, kH200);
      SCOPED_TRACE(testing::Message() << outputs << (gated ? " gated" : ""));
      EXPECT_GE(t.tiles * t.box_rows * (gated ? 2 : 1), outputs);
      EXPECT_LE(t.box_rows, 64);
      EXPECT_LE(t.box_rows * 128 * t.boxes_per_stage * t.boxes_per_tile, chain::kStageWeightBytes);
      EXPECT_LE(t.k_ways * (t.box_rows + 15) / 16, 8 + t.k_ways);
      EXPECT_LE(highest_pile(t), (outputs / (gated ? 2 : 1) / kH200 + 1) * 2 + 64);
    }
}

TEST(ChainTiling, AModelTheChainCannotRunSaysWhy) {
  DeviceInfo hopper;
  hopper.compute_major = 9;
  ChainModel model;
  EXPECT_NE(why_no_chain(model, hopper), "");
  model = {.hidden = 256, .ffn = 512, .heads = 4, .kv_heads = 2, .head_dim = 96};
  model.layers.resize(1);
  EXPECT_EQ(why_no_chain(model, hopper), "heads are neither 64 nor 128 wide");
  EXPECT_EQ(why_no_chain(model, DeviceInfo{}), "the device is not a Hopper");
}

}  // namespace
}  // namespace cheetah::gpu
