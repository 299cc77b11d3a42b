// SPDX-License-Identifier: MIT
// Prefill attention on WGMMA and TMA. A block holds 128 query rows of one head and walks the keys from the
// last visible block of 128 to the first; one warp copies pages, two warpgroups of 64 rows each compute.
// While one warpgroup exponentiates, the other's products run, and within a warpgroup P V of one block runs
// during the softmax of the next.
//
// FLOPs: 4 * head_dim a visible pair. Bytes: q and out once, K and V once a tile and head (from L2 mostly).
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "gpu/wgmma.cuh"
#include "kernels/attention/cuda/hopper.h"
#include "kernels/attention/cuda/hopper_math.cuh"
#include "kernels/attention/cuda/hopper_prefill_copy.cuh"
#include "kernels/cuda/pairs.cuh"

namespace cheetah::gpu {
namespace {

using prefill::Barriers;
using prefill::Cache;
using prefill::copy_pages;
using prefill::copy_queries;
using prefill::KeyBlocks;
using prefill::kKeys;
using prefill::kRows;
using prefill::kStages;
using prefill::kThreads;
using prefill::Layout;
using prefill::PrefillParams;
using prefill::widen_pages;

// One warpgroup's 64 rows.
template <class L, bool kSoftCap>
struct Consumer {
  static constexpr int kDim = L::kDim;
  const PrefillParams& params;
  float out[kDim / 2], scores[kKeys / 2];
  uint32_t weights[kKeys / 16][4];
  float row_max[2] = {-INFINITY, -INFINITY}, row_sum[2] = {0.f, 0.f}, rescale[2];
  int position;  // of the thread's first row; the second is 8 further

  __device__ explicit Consumer(const PrefillParams& p) : params(p) {}

  __device__ void multiply_keys(uint64_t q, const unsigned char* keys) {
    const uint64_t k = wgmma::descriptor(ptx::shared_address(keys));
#pragma unroll
    for (int i = 0; i < kDim / 16; ++i)
      wgmma::Product<wgmma::Input::kBf16, kKeys>::add(scores, q + (i / 4) * (kRows * 128 / 16) + (i % 4) * 2,
          k + (i / 4) * (kKeys * 128 / 16) + (i % 4) * 2, i);
  }
  __device__ void add_values(const unsigned char* values, int accumulate) {
    const uint64_t v = wgmma::transposed_descriptor(ptx::shared_address(values), kKeys * 128);
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
      wgmma::RegisterProduct<wgmma::Input::kBf16, kDim>::add(
          out, weights[i], v + i * (16 * 128 / 16), accumulate | i);
  }

  __device__ void mask(int block) {
    const int lane = threadIdx.x % 32;
    const int first = block * kKeys;
    const int last_seen = position - first;  // by the first row, counted in the block
    const bool cut_right = last_seen<kKeys - 1, cut_left = params.window> 0 && last_seen + 8 >= params.window;
    if (!cut_right && !cut_left) return;
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const int column = (i / 4) * 8 + (lane % 4) * 2 + i % 2, seen = last_seen + (i % 4 < 2 ? 0 : 8);
      if (column > seen || (params.window > 0 && column <= seen - params.window)) scores[i] = -INFINITY;
    }
  }

  // Scores become weights, unscaled by the final sum; rescale[] is what earlier sums must be multiplied by.
  __device__ void softmax(int block) {
    if constexpr (kSoftCap) {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i)
        scores[i] = params.soft_cap * tanhf(scores[i] * params.scale / params.soft_cap);
    }
    const float scale = (kSoftCap ? 1.f : params.scale) * hopper::kLog2E;
    mask(block);
    float top[2] = {row_max[0], row_max[1]};
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) top[i % 4 / 2] = fmaxf(top[i % 4 / 2], scores[i]);
    float base[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      top[r] = hopper::quad_max(top[r]);
      base[r] = top[r] == -INFINITY ? 0.f : top[r] * scale;  // a row that has seen no key yet
      rescale[r] = hopper::exp2_fast(row_max[r] * scale - base[r]);
      row_max[r] = top[r];
      row_sum[r] *= rescale[r];
    }
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      scores[i] = hopper::exp2_fast(fmaf(scores[i], scale, -base[i % 4 / 2]));
      row_sum[i % 4 / 2] += scores[i];
    }
  }
  __device__ void pack_weights() {
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i)
#pragma unroll
      for (int r = 0; r < 4; ++r)
        weights[i][r] = pack_pair<wgmma::Input::kBf16>(scores[i * 8 + r * 2], scores[i * 8 + r * 2 + 1]);
  }
  __device__ void rescale_output() {
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) out[i] *= rescale[i % 4 / 2];
  }

  __device__ void store(const SequenceEntry& sequence, int row, int head) {
    const int lane = threadIdx.x % 32;
    const float scale = (kSoftCap ? 1.f : params.scale) * hopper::kLog2E;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float sum = hopper::quad_sum(row_sum[r]);
      if (params.sinks) sum += hopper::exp2_fast(params.sinks[head] * hopper::kLog2E - row_max[r] * scale);
      const float inverse = 1.f / sum;
      if (row + r * 8 >= sequence.query_count) continue;
      uint32_t* to =
          reinterpret_cast<uint32_t*>(params.out + (sequence.query_begin + row + r * 8) * params.out_stride +
                                      head * kDim + (lane % 4) * 2);
#pragma unroll
      for (int c = 0; c < kDim / 8; ++c)
        to[c * 4] =
            pack_pair<wgmma::Input::kBf16>(out[c * 4 + r * 2] * inverse, out[c * 4 + r * 2 + 1] * inverse);
    }
  }
};

// The two warpgroups take turns at the tensor cores: each waits for its turn and passes it on.
__device__ inline void wait_for_turn(int group) {
  if (group == 0)
    asm volatile("bar.sync 1, 256;" ::: "memory");
  else
    asm volatile("bar.sync 2, 256;" ::: "memory");
}
__device__ inline void pass_turn(int group) {
  if (group == 0)
    asm volatile("bar.arrive 2, 256;" ::: "memory");
  else
    asm volatile("bar.arrive 1, 256;" ::: "memory");
}

// Values behind the end of the context may be anything, and nothing times infinity is not nothing.
template <class L>
__device__ void clear_rows(unsigned char* values, int first) {
  constexpr int kPieces = L::kHalves * 8;  // of 16 bytes per row
  for (int i = threadIdx.x - 128; i < (kKeys - first) * kPieces; i += 256) {
    const int row = first + i / kPieces, piece = i % kPieces;
    *reinterpret_cast<uint4*>(values + (piece / 8) * (kKeys * 128) + row * 128 + piece % 8 * 16) = uint4{};
  }
  ptx::fence_async_shared();
  asm volatile("bar.sync 3, 256;" ::: "memory");
}

template <class L, bool kSoftCap>
__device__ void compute(const PrefillParams& params, int first_row, const SequenceEntry& sequence, int head,
    const KeyBlocks& blocks, unsigned char* smem, Barriers& barriers) {
  const int group = threadIdx.x / 128 - 1, in_group = threadIdx.x % 128;
  const int row = first_row + group * 64 + (in_group / 32) * 16 + (in_group % 32) / 4;
  Consumer<L, kSoftCap> c(params);
  c.position = sequence.context_tokens - sequence.query_count + row;
  const auto keys = [&](int stage) { return smem + L::kQBytes + stage * 2 * L::kBlockBytes; };
  const auto values = [&](int stage) { return keys(stage) + L::kBlockBytes; };
  const auto release = [&](uint64_t& barrier) {
    if (in_group == 0) ptx::barrier_arrive(&barrier);
  };
  const uint64_t q = wgmma::descriptor(ptx::shared_address(smem + group * 64 * 128));

  ptx::barrier_wait(&barriers.q_full, 0);
  if (group == 1) pass_turn(group);
  ptx::barrier_wait(&barriers.k_full[0], 0);
  wait_for_turn(group);
  wgmma::fence();
  c.multiply_keys(q, keys(0));
  wgmma::commit();
  pass_turn(group);
  wgmma::wait<0>();
  release(barriers.k_empty[0]);
  c.softmax(blocks.end - 1);
  c.pack_weights();
  if (blocks.end * kKeys > sequence.context_tokens) {
    ptx::barrier_wait(&barriers.v_full[0], 0);
    clear_rows<L>(values(0), sequence.context_tokens - (blocks.end - 1) * kKeys);
  }
  for (int i = 1; i < blocks.count(); ++i) {
    const int stage = i % kStages, before = (i - 1) % kStages;
    ptx::barrier_wait(&barriers.k_full[stage], (i / kStages) & 1);
    wait_for_turn(group);
    wgmma::fence();
    c.multiply_keys(q, keys(stage));
    wgmma::commit();
    ptx::barrier_wait(&barriers.v_full[before], ((i - 1) / kStages) & 1);
    c.add_values(values(before), i - 1);
    wgmma::commit();
    pass_turn(group);
    wgmma::wait<1>();
    release(barriers.k_empty[stage]);
    c.softmax(blocks.end - 1 - i);
    wgmma::wait<0>();
    release(barriers.v_empty[before]);
    c.rescale_output();
    c.pack_weights();
  }
  const int last = blocks.count() - 1;
  ptx::barrier_wait(&barriers.v_full[last % kStages], (last / kStages) & 1);
  wgmma::fence();
  c.add_values(values(last % kStages), last);
  wgmma::commit();
  wgmma::wait<0>();
  c.store(sequence, row, head);
}

template <class L, bool kSoftCap>
__global__ void __launch_bounds__(kThreads, 1) prefill_attention(const __grid_constant__ TensorMap q_map,
    const __grid_constant__ Cache<L> cache, const PrefillParams params) {
  extern __shared__ unsigned char raw[];
  unsigned char* smem = ptx::align_shared(raw, 1024);
  __shared__ Barriers barriers;
  // The last rows see most keys: their blocks come first, of all sequences.
  const int head = blockIdx.x;
  const SequenceEntry sequence = params.sequences[blockIdx.y];
  const int first_row = (gridDim.z - 1 - blockIdx.z) * kRows;
  if (first_row >= sequence.query_count || (params.skip_single_rows && sequence.query_count == 1)) return;
  const int past = sequence.context_tokens - sequence.query_count;
  const int last_row = min(first_row + kRows, sequence.query_count) - 1;
  const int first_key = params.window > 0 ? max(0, past + first_row - params.window + 1) : 0;
  const KeyBlocks blocks{first_key / kKeys, (past + last_row) / kKeys + 1};
  if (threadIdx.x == 0) {
    ptx::barrier_init(&barriers.q_full, 1);
    for (uint64_t& full : barriers.stored_full) ptx::barrier_init(&full, 1);
    for (int s = 0; s < kStages; ++s) {
      ptx::barrier_init(&barriers.k_full[s], L::kFp8 ? 128 : 1);
      ptx::barrier_init(&barriers.v_full[s], L::kFp8 ? 128 : 1);
      ptx::barrier_init(&barriers.k_empty[s], 2);
      ptx::barrier_init(&barriers.v_empty[s], 2);
    }
    ptx::fence_barrier_init();
  }
  __syncthreads();
  if (threadIdx.x < 128) {
    ptx::give_registers<L::kFewRegisters>();
    if (threadIdx.x == 0) copy_queries<L>(q_map, sequence.query_begin + first_row, head, smem, barriers);
    if constexpr (L::kFp8)
      widen_pages<L>(cache, params, sequence, head, blocks, smem, barriers);
    else if (threadIdx.x < 32)
      copy_pages<L>(cache, params, sequence, head, blocks, smem, barriers);
  } else {
    ptx::take_registers<L::kManyRegisters>();
    compute<L, kSoftCap>(params, first_row, sequence, head, blocks, smem, barriers);
  }
}

template <class L>
Cache<L> cache_of(const PagedKv& kv) {
  if constexpr (L::kFp8)
    return {kv.keys, kv.values, kv.kv_heads};
  else
    return {hopper::cache_map(kv, kv.keys, kKeys), hopper::cache_map(kv, kv.values, kKeys)};
}

template <class L, bool kSoftCap>
void launch_prefill(const AttentionArgs<Bf16>& args, const PrefillParams& params, Stream& stream) {
  constexpr int kDim = L::kDim;
  const TensorMap q = make_tensor_map(args.q, {.element = TensorElement::kBF16,
                                                  .rank = 3,
                                                  .dims = {kDim, args.heads, args.batch.rows},
                                                  .strides = {kDim * 2, args.q_stride * 2},
                                                  .box = {64, 1, kRows}});
  launch({.kernel = "hopper_prefill_attention",
             .grid = {args.heads, args.batch.num_sequences, (args.batch.max_queries + kRows - 1) / kRows},
             .block = {kThreads},
             .shared_bytes = L::kSmemBytes,
             .numbers = {args.batch.rows, args.batch.num_sequences, args.heads, args.kv.kv_heads, kDim}},
      stream, prefill_attention<L, kSoftCap>, q, cache_of<L>(args.kv), params);
}

template <class L>
void launch_prefill(const AttentionArgs<Bf16>& args, const PrefillParams& params, Stream& stream) {
  if (args.soft_cap > 0.f)
    launch_prefill<L, true>(args, params, stream);
  else
    launch_prefill<L, false>(args, params, stream);
}

template <int kDim>
void launch_prefill(const AttentionArgs<Bf16>& args, const PrefillParams& params, Stream& stream) {
  if (args.kv.dtype == DType::kF8E4M3)
    launch_prefill<Layout<kDim, true>>(args, params, stream);
  else
    launch_prefill<Layout<kDim, false>>(args, params, stream);
}

}  // namespace

void hopper_prefill_attention(const AttentionArgs<Bf16>& args, bool skip_single_rows, Stream& stream) {
  const PrefillParams params{.sequences = args.batch.sequences,
      .pages = args.batch.pages,
      .out = reinterpret_cast<uint16_t*>(args.out),
      .skip_single_rows = skip_single_rows,
      .out_stride = args.out_stride,
      .heads = static_cast<int>(args.heads),
      .group = static_cast<int>(args.heads / args.kv.kv_heads),
      .page_tokens = static_cast<int>(args.kv.page_tokens),
      .window = static_cast<int>(args.window),
      .scale = args.scale,
      .soft_cap = args.soft_cap,
      .sinks = args.sinks};
  if (args.kv.key_dim == 64)
    launch_prefill<64>(args, params, stream);
  else
    launch_prefill<128>(args, params, stream);
}

}  // namespace cheetah::gpu
