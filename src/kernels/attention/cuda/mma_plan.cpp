// SPDX-License-Identifier: MIT
// Which tiles attend to what: plain decisions, tested without a GPU.
#include <algorithm>
#include <limits>

#include "kernels/attention/cuda/hopper.h"
#include "kernels/attention/cuda/mma.h"
#include "kernels/attention/cuda/mma_shape.h"

namespace cheetah::gpu {
namespace mma {
namespace {

struct Size {
  int64_t shared_bytes;
  int rows;
};
template <class S>
constexpr Size kSizeOf = {S::kSharedBytes, S::kRows};

Size size_of(const PagedKv& kv, Tile tile) {
  constexpr Size kLatent[] = {kSizeOf<LatentFew>, kSizeOf<LatentMany>, kSizeOf<LatentManyLow>};
  constexpr Size kShort[] = {kSizeOf<ShortFew>, kSizeOf<ShortMany>, kSizeOf<ShortMany>};
  constexpr Size kLong[] = {kSizeOf<LongFew>, kSizeOf<LongMany>, kSizeOf<LongManyLow>};
  const auto at = static_cast<size_t>(tile);
  if (!kv.values) return kLatent[at];
  return std::max(kv.key_dim, kv.value_dim) <= ShortFew::kKeyDim ? kShort[at] : kLong[at];
}

// The largest tile the card has room for.
Tile tile_for_many(const PagedKv& kv, const DeviceInfo& device) {
  for (const Tile tile : {Tile::kMany, Tile::kManyLow})
    if (shared_bytes(kv, tile) <= device.shared_bytes_per_block) return tile;
  return Tile::kFew;
}

}  // namespace

int64_t shared_bytes(const PagedKv& kv, Tile tile) { return size_of(kv, tile).shared_bytes; }
int tile_rows(const PagedKv& kv, Tile tile) { return size_of(kv, tile).rows; }

}  // namespace mma

bool mma_attention_fits(const AttentionArgs<Bf16>& args, const DeviceInfo& device) {
  const PagedKv& kv = args.kv;
  const bool dims_fit =
      kv.values ? std::max(kv.key_dim, kv.value_dim) <= mma::LongFew::kKeyDim
                : kv.key_dim <= mma::LatentFew::kKeyDim && kv.value_dim <= mma::LatentFew::kValueDim;
  return device.compute_major >= 8 && kv.dtype == DType::kBF16 && dims_fit && kv.key_dim % 8 == 0 &&
         kv.value_dim % 8 == 0 && args.q_stride % 8 == 0 && args.out_stride % 2 == 0 &&
         mma::shared_bytes(kv, mma::Tile::kFew) <= device.shared_bytes_per_block;
}

// Sequences of few rows and those of many go to tiles of their own.
void mma_attention(const AttentionArgs<Bf16>& args, Stream& stream) {
  const AttentionBatch& batch = args.batch;
  const PagedKv& kv = args.kv;
  const DeviceInfo& device = stream.device();
  const int64_t group = args.heads / kv.kv_heads;
  const bool has_single_rows = batch.rows < batch.num_sequences * batch.max_queries || batch.max_queries == 1;
  const auto attend = [&](mma::Tile tile, mma::Share share) {
    const int64_t tiles_a_token = (group + mma::tile_rows(kv, tile) - 1) / mma::tile_rows(kv, tile);
    // Tiles of many rows leave room for one block a multiprocessor, half of what decode_splits reckons with.
    const int64_t blocks = kv.kv_heads * tiles_a_token * (tile == mma::Tile::kFew ? 1 : 2);
    if (args.scratch.parts && has_single_rows && group >= share.least_rows && group <= share.most_rows)
      share.splits = decode_splits(batch.num_sequences, blocks, batch.max_context, device.num_sms);
    (kv.values ? mma::launch_heads : mma::launch_latent)(args, tile, share, stream);
    if (share.splits > 1) mma::merge_splits(args, share.splits, stream);
  };
  constexpr int kAnyRows = std::numeric_limits<int>::max();
  const int few_rows = mma::tile_rows(kv, mma::Tile::kFew);
  const mma::Tile many = mma::tile_for_many(kv, device);
  if (many == mma::Tile::kFew) return attend(many, {.least_rows = 1, .most_rows = kAnyRows});
  const bool has_few = group <= few_rows && (has_single_rows || batch.max_queries * group <= few_rows);
  if (batch.max_queries * group > few_rows)
    attend(many, {.least_rows = has_few ? few_rows + 1 : 1, .most_rows = kAnyRows});
  if (has_few) attend(mma::Tile::kFew, {.least_rows = 1, .most_rows = few_rows});
}

}  // namespace cheetah::gpu
