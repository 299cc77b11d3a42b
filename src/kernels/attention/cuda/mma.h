// SPDX-License-Identifier: MIT
#pragma once
// Attention on the tensor cores of every card from Ampere on: BF16 q, out and cache, sums in F32. Heads of up
// to 256 numbers, and latent rows (MLA) of up to 576 whose first 512 are the values.
#include "kernels/attention/attention_cuda.h"

namespace cheetah::gpu {

bool mma_attention_fits(const AttentionArgs<Bf16>& args, const DeviceInfo& device);
void mma_attention(const AttentionArgs<Bf16>& args, Stream& stream);

namespace mma {

// How a tile is cut. Rows of a tile are (query token, query head) pairs that share a key head.
enum class Tile {
  kFew,      // 16 rows: single tokens of few heads
  kMany,     // 64 or 128 rows
  kManyLow,  // the same with half the keys at a time, where shared memory is short
};

// What a launch computes: the sequences whose rows are between the two limits.
struct Share {
  int least_rows = 0, most_rows = 0;
  int splits = 1;  // of sequences with one query
};

// Bytes of shared memory that a block of a tile asks for, and its rows.
int64_t shared_bytes(const PagedKv& kv, Tile tile);
int tile_rows(const PagedKv& kv, Tile tile);
void launch_heads(const AttentionArgs<Bf16>& args, Tile tile, const Share& share, Stream& stream);
void launch_latent(const AttentionArgs<Bf16>& args, Tile tile, const Share& share, Stream& stream);
// Makes one of the parts of every sequence with one query.
void merge_splits(const AttentionArgs<Bf16>& args, int splits, Stream& stream);

}  // namespace mma
}  // namespace cheetah::gpu
