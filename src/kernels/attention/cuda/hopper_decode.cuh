// SPDX-License-Identifier: MIT
#pragma once
// Decode attention: one query row per sequence, so the cache's bytes are all that matters. A block reads one
// share of one sequence and key head; each of its four warps reads 16 tokens at a time through its own ring
// of bulk copies and never waits for the others. All query heads of the group ride along in one 16-row
// product. The block that finishes a sequence's head last merges the shares by their log-sum-exp.
//
// How the cache is stored is a type's business: how rows are copied, and how products are made of them.
//
// Bytes: keys and values of a cached token and key head, once. FLOPs: 4 * head_dim a token and query head.
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/attention/cuda/hopper.h"
#include "kernels/attention/cuda/hopper_math.cuh"
#include "kernels/cuda/pairs.cuh"

namespace cheetah::gpu::decode {

inline constexpr int kWarps = 4;
inline constexpr int kThreads = kWarps * 32;
inline constexpr int kUnit = 16;  // tokens per warp reads at a time
inline constexpr int kGroupRows = 16;

struct DecodeParams {
  const uint16_t* q;
  int64_t q_stride;
  uint16_t* out;
  int64_t out_stride;
  const SequenceEntry* sequences;
  const int32_t* pages;
  int heads, group, kv_heads, splits, page_tokens, window;
  float scale, soft_cap;
  const float* sinks;
  float* partial;      // [sequences, heads, splits, head_dim]
  float* statistics;   // [sequences, heads, splits, 2]: the highest score, the sum of exponentials
  uint32_t* counters;  // [sequences, kv_heads]: blocks that are done; zero between calls
};

// Rows of a page that a copy brings, and where in the unit they belong.
struct RowsAt {
  int page, inside, kv_head, row;
};

// A running softmax over 16 query heads: what one warp has seen. Tokens tells which token of the unit a
// column of the scores is.
template <int kDim, class Tokens>
struct Softmax {
  float out[kDim / 8][4] = {};
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};

  __device__ void rescale_and_weigh(
      float (&scores)[2][4], int first_seen, int end_seen, float scale, float soft_cap) {
    const int lane = threadIdx.x % 32;
    if (soft_cap > 0.f) {
#pragma unroll
      for (int t = 0; t < 2; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e) scores[t][e] = soft_cap * tanhf(scores[t][e] / soft_cap * scale);
      scale = 1.f;
    }
    scale *= hopper::kLog2E;
    if (first_seen > 0 || end_seen < kUnit) {
#pragma unroll
      for (int t = 0; t < 2; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int token = Tokens::at(t, (lane % 4) * 2 + (e & 1));
          if (token < first_seen || token >= end_seen) scores[t][e] = -INFINITY;
        }
    }
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float highest =
          fmaxf(fmaxf(scores[0][r * 2], scores[0][r * 2 + 1]), fmaxf(scores[1][r * 2], scores[1][r * 2 + 1]));
      highest = fmaxf(hopper::quad_max(highest) * scale, top[r]);  // some token of the unit is always seen
      factor[r] = hopper::exp2_fast(top[r] - highest);
      top[r] = highest;
      sum[r] *= factor[r];
    }
    if (__any_sync(~0u, factor[0] != 1.f || factor[1] != 1.f)) {
#pragma unroll
      for (int t = 0; t < kDim / 8; ++t) {
        out[t][0] *= factor[0];
        out[t][1] *= factor[0];
        out[t][2] *= factor[1];
        out[t][3] *= factor[1];
      }
    }
#pragma unroll
    for (int t = 0; t < 2; ++t)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        scores[t][e] = hopper::exp2_fast(fmaf(scores[t][e], scale, -top[e / 2]));
        sum[e / 2] += scores[t][e];
      }
  }
};

// Tops are kept times scale and log2(e): exp2(top - other) merges.
struct Part {
  float top, sum;
};

__device__ inline uint16_t narrow(float v) {
  return static_cast<uint16_t>(pack_pair<wgmma::Input::kBf16>(v, 0.f));
}

// Thread d of a row's kDim merges `count` parts of number d; values come from `value(i)`, statistics from
// part(i).
template <class PartOf, class ValueOf>
__device__ Part merge(int count, const PartOf& part, const ValueOf& value, float& merged) {
  float top = -INFINITY;
  for (int i = 0; i < count; ++i) top = fmaxf(top, part(i).top);
  const float base = top == -INFINITY ? 0.f : top;
  float sum = 0.f;
  merged = 0.f;
  for (int i = 0; i < count; ++i) {
    const Part p = part(i);
    const float factor = hopper::exp2_fast(p.top - base);
    sum += factor * p.sum;
    merged += factor * value(i);
  }
  return {top, sum};
}

__device__ inline void store_output(const DecodeParams& params, const SequenceEntry& sequence, int head,
    int dim, int d, const Part& part, float value) {
  float sum = part.sum;
  if (params.sinks) sum += hopper::exp2_fast(params.sinks[head] * hopper::kLog2E - part.top);
  params.out[sequence.query_begin * params.out_stride + head * dim + d] = narrow(value / sum);
}

template <class Cache>
__global__ void __launch_bounds__(kThreads, Cache::kBlocks)
    decode_attention(const __grid_constant__ typename Cache::Source source, const DecodeParams params) {
  constexpr int kDim = Cache::kDim;
  extern __shared__ unsigned char raw[];
  unsigned char* smem = ptx::align_shared(raw, 1024);
  __shared__ uint64_t full[kWarps][Cache::kStages];
  __shared__ Part parts[kWarps][kGroupRows];
  __shared__ unsigned arrived;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int split = blockIdx.x, kv_head = blockIdx.y;
  if (threadIdx.x < kWarps * Cache::kStages) {
    ptx::barrier_init(&full[0][0] + threadIdx.x, 1);
    ptx::fence_barrier_init();
  }
  __syncthreads();
  ptx::wait_for_dependencies();
  ptx::launch_dependents();

  const SequenceEntry sequence = params.sequences[blockIdx.z];
  if (sequence.query_count != 1) return;
  const int context = sequence.context_tokens;
  const int first_token = params.window > 0 ? max(0, context - params.window) : 0;
  const int first_unit = first_token / kUnit, units = (context + kUnit - 1) / kUnit - first_unit;
  const int share = (units + params.splits - 1) / params.splits;
  const int begin = first_unit + split * share, end = min(begin + share, first_unit + units);
  const int32_t* table = params.pages + sequence.first_page;
  unsigned char* ring = smem + warp * (Cache::kStages * 2 * Cache::kUnitBytes);
  const int box_rows = min(kUnit, params.page_tokens);
  const auto copy_unit = [&](int i) {
    const int unit = begin + warp + i * kWarps;
    if (unit >= end || lane != 0) return;
    uint64_t* barrier = &full[warp][i % Cache::kStages];
    unsigned char* to = ring + i % Cache::kStages * 2 * Cache::kUnitBytes;
    ptx::barrier_expect_bytes(barrier, 2 * Cache::kUnitBytes);
    for (int row = 0; row < kUnit; row += box_rows) {
      const int token = min(unit * kUnit + row, context - 1);  // behind the end any page will do: masked
      const int page = table[token / params.page_tokens],
                inside = token % params.page_tokens / box_rows * box_rows;
      Cache::copy_rows(source, {page, inside, kv_head, row}, params, to, barrier);
    }
  };
  for (int i = 0; i < Cache::kStages; ++i) copy_unit(i);
  uint32_t q[kDim / 16][4];
  Cache::load_queries(
      q, params.q + sequence.query_begin * params.q_stride + kv_head * params.group * kDim, params.group);
  typename Cache::Accumulator seen;
  int i = 0;
  for (int unit = begin + warp; unit < end; unit += kWarps, ++i) {
    const int stage = i % Cache::kStages;
    ptx::barrier_wait(&full[warp][stage], (i / Cache::kStages) & 1);
    const unsigned char* keys = ring + stage * 2 * Cache::kUnitBytes;
    if (context - unit * kUnit < kUnit)
      Cache::clear_rows(ring + (stage * 2 + 1) * Cache::kUnitBytes, context - unit * kUnit);
    seen.add(q, keys, keys + Cache::kUnitBytes, first_token - unit * kUnit, context - unit * kUnit,
        params.scale, params.soft_cap);
    __syncwarp();
    copy_unit(i + Cache::kStages);
  }

  __syncthreads();  // every unit has been read: the rings now hold the warps' results
  float* results = reinterpret_cast<float*>(smem);  // [warp][group][kDim]
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = lane / 4 + r * 8;
    const float sum = hopper::quad_sum(seen.sum[r]);
    if (row >= params.group) continue;
    if (lane % 4 == 0) parts[warp][row] = {seen.top[r], sum};
#pragma unroll
    for (int t = 0; t < kDim / 8; ++t)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        results[(warp * params.group + row) * kDim + Cache::dim_at(t, (lane % 4) * 2 + e)] =
            seen.out[t][r * 2 + e];
  }
  __syncthreads();
  const int64_t slot = static_cast<int64_t>(blockIdx.z) * params.kv_heads + kv_head;
  Part* statistics = reinterpret_cast<Part*>(params.statistics);
  for (int item = threadIdx.x; item < params.group * kDim; item += kThreads) {
    const int row = item / kDim, d = item % kDim;
    float value;
    const Part part = merge(
        kWarps, [&](int w) { return parts[w][row]; },
        [&](int w) { return results[(w * params.group + row) * kDim + d]; }, value);
    if (params.splits == 1) {
      store_output(params, sequence, kv_head * params.group + row, kDim, d, part, value);
    } else {
      const int64_t at = (slot * params.group + row) * params.splits + split;
      __stcg(params.partial + at * kDim + d, value);
      if (d == 0) __stcg(reinterpret_cast<float2*>(statistics + at), make_float2(part.top, part.sum));
    }
  }
  if (params.splits == 1) return;

  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    arrived = atomicAdd(params.counters + slot, 1u);
    __threadfence();
  }
  __syncthreads();
  if (arrived != static_cast<unsigned>(params.splits) - 1) return;
  for (int item = threadIdx.x; item < params.group * kDim; item += kThreads) {
    const int row = item / kDim, d = item % kDim;
    const int64_t at = (slot * params.group + row) * params.splits;
    float value;
    const Part part = merge(
        params.splits,
        [&](int p) {
          const float2 v = __ldcg(reinterpret_cast<const float2*>(statistics + at + p));
          return Part{v.x, v.y};
        },
        [&](int p) { return __ldcg(params.partial + (at + p) * kDim + d); }, value);
    store_output(params, sequence, kv_head * params.group + row, kDim, d, part, value);
  }
  if (threadIdx.x == 0) params.counters[slot] = 0;
}

template <class Cache>
void launch_decode(const AttentionArgs<Bf16>& args, const DecodeParams& params, Stream& stream) {
  launch({.kernel = "hopper_decode_attention",
             .grid = {params.splits, args.kv.kv_heads, args.batch.num_sequences},
             .block = {kThreads},
             .shared_bytes = Cache::kSmemBytes,
             .overlaps_previous = true,
             .numbers = {args.batch.num_sequences, args.heads, args.kv.kv_heads, Cache::kDim,
                 args.batch.max_context}},
      stream, decode_attention<Cache>, Cache::source_of(args.kv), params);
}

// Of FP8 rows, in hopper_decode_fp8.cu.
void launch_fp8_decode(const AttentionArgs<Bf16>& args, const DecodeParams& params, Stream& stream);

}  // namespace cheetah::gpu::decode
