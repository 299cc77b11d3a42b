// SPDX-License-Identifier: MIT
#pragma once
// Attention over tiles of (query token, head) rows that share a key head: every key row is read once per tile,
// by asynchronous copies two tiles of keys deep, and with latent rows serves as key and as value. The warps
// of a block share the scores by keys and the output by columns; between the two the weights of the values
// lie in shared memory.
//
// Bytes: the cache once a tile of rows. FLOPs: 2 * (key_dim + value_dim) a visible (row, key) pair.
#include <algorithm>

#include "gpu/launch.cuh"
#include "kernels/attention/cuda/mma_block.cuh"

namespace cheetah::gpu::mma {

// What an output is divided by: the sum of exponentials, the sink's among them.
__device__ inline float divisor(const Params& params, int head, float top, float sum) {
  return params.sinks ? sum + hopper::exp2_fast(params.sinks[head] * hopper::kLog2E - top) : sum;
}

// The keys of `tile`, a tile of kRows rows, cut into `splits` shares of which this is number `split`.
template <class S>
__device__ TileRange range_of(
    const Params& params, const SequenceEntry& sequence, int tile, int split, int splits) {
  TileRange range;
  range.rows = sequence.query_count * params.group;
  range.first_row = tile * S::kRows;
  range.first_position = sequence.context_tokens - sequence.query_count;
  const int last_row = min(range.first_row + S::kRows, range.rows) - 1;
  const int oldest = range.first_position + range.first_row / params.group - params.window + 1;
  range.begin = params.window > 0 ? max(0, oldest) : 0;
  range.end = range.first_position + last_row / params.group + 1;
  const int first = range.begin / S::kTokens, tiles = (range.end + S::kTokens - 1) / S::kTokens - first;
  const int share = (tiles + splits - 1) / splits;
  range.first_tile = first + split * share;
  range.end_tile = min(range.first_tile + share, first + tiles);
  return range;
}

template <class S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocksAMultiprocessor)
    attend_tile(const __grid_constant__ Params params) {
  extern __shared__ __align__(128) unsigned char smem[];
  ptx::wait_for_dependencies();
  ptx::launch_dependents();
  const SequenceEntry sequence = params.sequences[blockIdx.z];
  const int rows = sequence.query_count * params.group, kv_head = blockIdx.y;
  const int splits = sequence.query_count == 1 ? params.share.splits : 1;
  const int split = blockIdx.x % params.share.splits;
  // The tiles that see most keys go first.
  const int tile = (rows + S::kRows - 1) / S::kRows - 1 - static_cast<int>(blockIdx.x) / params.share.splits;
  if (rows < params.share.least_rows || rows > params.share.most_rows || tile < 0 || split >= splits) return;
  const TileRange range = range_of<S>(params, sequence, tile, split, splits);
  Block<S> block(params, range, params.pages + sequence.first_page, smem);
  block.copy_queries(sequence, kv_head);
  block.run(kv_head);
  block.add_sums();
  block.each_output([&](int row, float top, float sum) {
    const int head = kv_head * params.group + row % params.group;
    const int64_t at = (static_cast<int64_t>(blockIdx.z) * params.heads + head) * splits + split;
    if (splits > 1 && threadIdx.x % 4 == 0) __stcg(params.statistics + at, make_float2(top, sum));
    const float factor = splits > 1 ? 1.f : 1.f / divisor(params, head, top, sum);
    uint16_t* out = params.out + (sequence.query_begin + row / params.group) * params.out_stride +
                    head * params.value_dim;
    return [=, &params](int column, float low, float high) {
      if (splits > 1)
        __stcg(reinterpret_cast<float2*>(params.partial + at * params.value_dim + column),
            make_float2(low, high));
      else
        *reinterpret_cast<uint32_t*>(out + column) =
            pack_pair<wgmma::Input::kBf16>(low * factor, high * factor);
    };
  });
}

inline Params params_of(const AttentionArgs<Bf16>& args, const Share& share) {
  const int64_t parts = args.batch.num_sequences * args.heads * share.splits;
  return {.q = reinterpret_cast<const uint16_t*>(args.q),
      .q_stride = args.q_stride,
      .out = reinterpret_cast<uint16_t*>(args.out),
      .out_stride = args.out_stride,
      .sequences = args.batch.sequences,
      .pages = args.batch.pages,
      .keys = reinterpret_cast<const uint16_t*>(args.kv.keys),
      .values = reinterpret_cast<const uint16_t*>(args.kv.values),
      .heads = static_cast<int>(args.heads),
      .group = static_cast<int>(args.heads / args.kv.kv_heads),
      .kv_heads = static_cast<int>(args.kv.kv_heads),
      .key_dim = static_cast<int>(args.kv.key_dim),
      .value_dim = static_cast<int>(args.kv.value_dim),
      .page_tokens = static_cast<int>(args.kv.page_tokens),
      .window = static_cast<int>(args.window),
      .share = share,
      .scale = args.scale,
      .soft_cap = args.soft_cap,
      .sinks = args.sinks,
      .partial = args.scratch.parts,
      .statistics = reinterpret_cast<float2*>(args.scratch.parts + parts * args.kv.value_dim)};
}

template <class S>
void launch_tiles(const AttentionArgs<Bf16>& args, const Share& share, Stream& stream) {
  const int64_t most_rows =
      std::min<int64_t>(args.batch.max_queries * args.heads / args.kv.kv_heads, share.most_rows);
  launch({.kernel = "mma_attention",
             .grid = {(most_rows + S::kRows - 1) / S::kRows * share.splits, args.kv.kv_heads,
                 args.batch.num_sequences},
             .block = {S::kThreads},
             .shared_bytes = S::kSharedBytes,
             .overlaps_previous = true,
             .numbers = {args.batch.num_sequences, args.batch.rows, args.heads, args.kv.kv_heads,
                 args.kv.key_dim, args.kv.value_dim, args.batch.max_context, share.splits}},
      stream, attend_tile<S>, params_of(args, share));
}

}  // namespace cheetah::gpu::mma
