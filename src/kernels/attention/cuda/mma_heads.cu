// SPDX-License-Identifier: MIT
// Tiles of heads whose keys and values lie apart, and the merge of split sequences.
#include "kernels/attention/cuda/mma_attention.cuh"

namespace cheetah::gpu::mma {
namespace {

constexpr int kMergeThreads = 128;

// out = the parts of one head, each shrunk to the highest of their tops. One block a (head, sequence).
__global__ void __launch_bounds__(kMergeThreads) merge_parts(const __grid_constant__ Params params) {
  ptx::wait_for_dependencies();
  ptx::launch_dependents();
  const SequenceEntry sequence = params.sequences[blockIdx.y];
  if (sequence.query_count != 1) return;
  const int head = blockIdx.x, splits = params.share.splits;
  const int64_t first = (static_cast<int64_t>(blockIdx.y) * params.heads + head) * splits;
  float top = -INFINITY, sum = 0.f;
  for (int i = 0; i < splits; ++i) top = fmaxf(top, __ldcg(params.statistics + first + i).x);
  for (int i = 0; i < splits; ++i) {
    const float2 part = __ldcg(params.statistics + first + i);
    sum += part.y * hopper::exp2_fast(part.x - top);
  }
  const float factor = 1.f / divisor(params, head, top, sum);
  uint16_t* out = params.out + sequence.query_begin * params.out_stride + head * params.value_dim;
  for (int column = threadIdx.x * 2; column < params.value_dim; column += kMergeThreads * 2) {
    float2 total = {0.f, 0.f};
    for (int i = 0; i < splits; ++i) {
      const float2 value =
          __ldcg(reinterpret_cast<const float2*>(params.partial + (first + i) * params.value_dim + column));
      const float weight = hopper::exp2_fast(__ldcg(params.statistics + first + i).x - top);
      total.x += weight * value.x;
      total.y += weight * value.y;
    }
    *reinterpret_cast<uint32_t*>(out + column) =
        pack_pair<wgmma::Input::kBf16>(total.x * factor, total.y * factor);
  }
}

}  // namespace

void merge_splits(const AttentionArgs<Bf16>& args, int splits, Stream& stream) {
  launch({.kernel = "mma_attention_merge",
             .grid = {args.heads, args.batch.num_sequences},
             .block = {kMergeThreads},
             .overlaps_previous = true,
             .numbers = {args.batch.num_sequences, args.heads, args.kv.value_dim, splits}},
      stream, merge_parts, params_of(args, {.splits = splits}));
}

void launch_heads(const AttentionArgs<Bf16>& args, Tile tile, const Share& share, Stream& stream) {
  const bool is_short = std::max(args.kv.key_dim, args.kv.value_dim) <= ShortFew::kKeyDim;
  if (tile == Tile::kFew)
    return is_short ? launch_tiles<ShortFew>(args, share, stream)
                    : launch_tiles<LongFew>(args, share, stream);
  if (is_short) return launch_tiles<ShortMany>(args, share, stream);
  if (tile == Tile::kMany) return launch_tiles<LongMany>(args, share, stream);
  launch_tiles<LongManyLow>(args, share, stream);
}

}  // namespace cheetah::gpu::mma
