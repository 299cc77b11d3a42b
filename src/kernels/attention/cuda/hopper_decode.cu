// Decode attention: one query row a sequence, so the cache's bytes are all that matters. A block reads one
// share of one sequence and key head; each of its four warps reads 16 tokens at a time through its own ring
// of bulk copies and never waits for the others. All query heads of the group ride along in one 16-row
// product. The block that finishes a sequence's head last merges the shares by their log-sum-exp.
//
// Bytes: 2 * head_dim * 2 a cached token and key head, once. FLOPs: 4 * head_dim a token and query head.
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/attention/cuda/hopper.h"
#include "kernels/attention/cuda/hopper_math.cuh"
#include "kernels/cuda/pairs.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kWarps = 4;
constexpr int kThreads = kWarps * 32;
constexpr int kUnit = 16;  // tokens a warp reads at a time
constexpr int kGroupRows = 16;

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

template <int kDim>
struct Ring {
  static constexpr int kHalves = kDim / 64;
  static constexpr int kUnitBytes = kUnit * kDim * 2;  // of K or of V
  static constexpr int kStages = kDim == 64 ? 6 : 3;
  static constexpr int kWarpBytes = kStages * 2 * kUnitBytes;
  static constexpr int kSmemBytes = kWarps * kWarpBytes + 1024;
};

// A running softmax over 16 query heads: what one warp has seen.
template <int kDim>
struct Accumulator {
  float out[kDim / 8][4] = {};
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f};

  __device__ static void multiply(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    ptx::multiply_bf16(d, {a[0], a[1], a[2], a[3]}, b0, b1);
  }
  // Where a 16-byte piece of a row lies in a swizzled box.
  __device__ static uint32_t piece(uint32_t base, int row, int chunk) {
    return base + (chunk / 8) * (kUnit * 128) + row * 128 + (((chunk % 8) ^ (row & 7)) << 4);
  }

  __device__ void add(const uint32_t (&q)[kDim / 16][4], uint32_t keys, uint32_t values, int first_seen,
                      int end_seen, float scale, float soft_cap) {
    const int lane = threadIdx.x % 32;
    float scores[2][4] = {};
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      uint32_t b[4];
      ptx::load_matrices(b, piece(keys, (lane & 7) + (lane & 16) / 2, k * 2 + (lane / 8 & 1)));
      multiply(scores[0], q[k], b[0], b[1]);
      multiply(scores[1], q[k], b[2], b[3]);
    }
    rescale_and_weigh(scores, first_seen, end_seen, scale, soft_cap);
    const uint32_t a[4] = {pack_pair<wgmma::Input::kBf16>(scores[0][0], scores[0][1]),
                           pack_pair<wgmma::Input::kBf16>(scores[0][2], scores[0][3]),
                           pack_pair<wgmma::Input::kBf16>(scores[1][0], scores[1][1]),
                           pack_pair<wgmma::Input::kBf16>(scores[1][2], scores[1][3])};
#pragma unroll
    for (int t = 0; t < kDim / 16; ++t) {
      uint32_t b[4];
      ptx::load_matrices_transposed(b, piece(values, (lane & 7) + (lane & 8), t * 2 + lane / 16));
      multiply(out[t * 2], a, b[0], b[1]);
      multiply(out[t * 2 + 1], a, b[2], b[3]);
    }
  }

  __device__ void rescale_and_weigh(float (&scores)[2][4], int first_seen, int end_seen, float scale,
                                    float soft_cap) {
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
          const int token = t * 8 + (lane % 4) * 2 + (e & 1);
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

template <int kDim>
__device__ void load_queries(uint32_t (&q)[kDim / 16][4], const uint16_t* base, int group) {
  const int row = threadIdx.x % 32 / 4, column = threadIdx.x % 4 * 2;
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int r = row + (i & 1) * 8;
      q[k][i] = r < group
                    ? *reinterpret_cast<const uint32_t*>(base + r * kDim + k * 16 + (i / 2) * 8 + column)
                    : 0u;
    }
}

__device__ uint16_t narrow(float v) { return static_cast<uint16_t>(pack_pair<wgmma::Input::kBf16>(v, 0.f)); }

// Values behind the end of the context may be anything, and nothing times infinity is not nothing.
template <int kDim>
__device__ void clear_rows(unsigned char* values, int first) {
  constexpr int kPieces = Ring<kDim>::kHalves * 8;  // of 16 bytes a row
  for (int i = threadIdx.x % 32; i < (kUnit - first) * kPieces; i += 32) {
    const int row = first + i / kPieces, piece = i % kPieces;
    *reinterpret_cast<uint4*>(values + (piece / 8) * (kUnit * 128) + row * 128 + piece % 8 * 16) = uint4{};
  }
  __syncwarp();
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

__device__ void store_output(const DecodeParams& params, const SequenceEntry& sequence, int head, int dim,
                             int d, const Part& part, float value) {
  float sum = part.sum;
  if (params.sinks) sum += hopper::exp2_fast(params.sinks[head] * hopper::kLog2E - part.top);
  params.out[sequence.query_begin * params.out_stride + head * dim + d] = narrow(value / sum);
}

template <int kDim>
__global__ void __launch_bounds__(kThreads, 2)
    decode_attention(const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
                     const DecodeParams params) {
  using R = Ring<kDim>;
  extern __shared__ unsigned char raw[];
  unsigned char* smem = ptx::align_shared(raw, 1024);
  __shared__ uint64_t full[kWarps][R::kStages];
  __shared__ Part parts[kWarps][kGroupRows];
  __shared__ unsigned arrived;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int split = blockIdx.x, kv_head = blockIdx.y;
  if (threadIdx.x < kWarps * R::kStages) {
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
  unsigned char* ring = smem + warp * R::kWarpBytes;
  const int box_rows = min(kUnit, params.page_tokens);
  const auto copy_unit = [&](int i) {
    const int unit = begin + warp + i * kWarps;
    if (unit >= end || lane != 0) return;
    uint64_t* barrier = &full[warp][i % R::kStages];
    unsigned char* to = ring + i % R::kStages * 2 * R::kUnitBytes;
    ptx::barrier_expect_bytes(barrier, 2 * R::kUnitBytes);
    for (int row = 0; row < kUnit; row += box_rows) {
      const int token = min(unit * kUnit + row, context - 1);  // behind the end any page will do: masked
      const int page = table[token / params.page_tokens],
                inside = token % params.page_tokens / box_rows * box_rows;
      for (int h = 0; h < R::kHalves; ++h) {
        unsigned char* at = to + h * (kUnit * 128) + row * 128;
        ptx::copy_box_4d(at, &k_map, h * 64, inside, kv_head, page, barrier, ptx::kEvictFirst);
        ptx::copy_box_4d(at + R::kUnitBytes, &v_map, h * 64, inside, kv_head, page, barrier,
                         ptx::kEvictFirst);
      }
    }
  };
  for (int i = 0; i < R::kStages; ++i) copy_unit(i);
  uint32_t q[kDim / 16][4];
  load_queries<kDim>(q, params.q + sequence.query_begin * params.q_stride + kv_head * params.group * kDim,
                     params.group);
  Accumulator<kDim> seen;
  int i = 0;
  for (int unit = begin + warp; unit < end; unit += kWarps, ++i) {
    const int stage = i % R::kStages;
    ptx::barrier_wait(&full[warp][stage], (i / R::kStages) & 1);
    const uint32_t keys = ptx::shared_address(ring + stage * 2 * R::kUnitBytes);
    if (context - unit * kUnit < kUnit)
      clear_rows<kDim>(ring + (stage * 2 + 1) * R::kUnitBytes, context - unit * kUnit);
    seen.add(q, keys, keys + R::kUnitBytes, first_token - unit * kUnit, context - unit * kUnit, params.scale,
             params.soft_cap);
    __syncwarp();
    copy_unit(i + R::kStages);
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
      *reinterpret_cast<float2*>(results + (warp * params.group + row) * kDim + t * 8 + (lane % 4) * 2) =
          make_float2(seen.out[t][r * 2], seen.out[t][r * 2 + 1]);
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

template <int kDim>
void launch_decode(const AttentionArgs<Bf16>& args, const DecodeParams& params, Stream& stream) {
  launch({.kernel = "hopper_decode_attention",
          .grid = {params.splits, args.kv.kv_heads, args.batch.num_sequences},
          .block = {kThreads},
          .shared_bytes = Ring<kDim>::kSmemBytes,
          .overlaps_previous = true,
          .numbers = {args.batch.num_sequences, args.heads, args.kv.kv_heads, kDim, args.batch.max_context}},
         stream, decode_attention<kDim>, hopper::cache_map(args.kv, args.kv.keys, kUnit),
         hopper::cache_map(args.kv, args.kv.values, kUnit), params);
}

}  // namespace

void hopper_decode_attention(const AttentionArgs<Bf16>& args, int splits, Stream& stream) {
  const int64_t shares = args.batch.num_sequences * args.heads * splits;
  const DecodeParams params{.q = reinterpret_cast<const uint16_t*>(args.q),
                            .q_stride = args.q_stride,
                            .out = reinterpret_cast<uint16_t*>(args.out),
                            .out_stride = args.out_stride,
                            .sequences = args.batch.sequences,
                            .pages = args.batch.pages,
                            .heads = static_cast<int>(args.heads),
                            .group = static_cast<int>(args.heads / args.kv.kv_heads),
                            .kv_heads = static_cast<int>(args.kv.kv_heads),
                            .splits = splits,
                            .page_tokens = static_cast<int>(args.kv.page_tokens),
                            .window = static_cast<int>(args.window),
                            .scale = args.scale,
                            .soft_cap = args.soft_cap,
                            .sinks = args.sinks,
                            .partial = args.scratch.parts,
                            .statistics = args.scratch.parts + shares * args.kv.value_dim,
                            .counters = args.scratch.counters};
  if (args.kv.key_dim == 64)
    launch_decode<64>(args, params, stream);
  else
    launch_decode<128>(args, params, stream);
}

}  // namespace cheetah::gpu
