// SPDX-License-Identifier: MIT
#pragma once
// The chain's products: 16 rows of W by 8 tokens at a time on the tensor cores. A thread takes 16 bytes of a
// row of W at once and the same numbers of x: which inner index they have in the tensor cores' eyes does not
// matter as long as both agree.
#include "kernels/cuda/pairs.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/decode_chain/cuda/chain_ring.cuh"
#include "kernels/gemm/cuda/hopper_epilogue.cuh"

namespace cheetah::gpu::chain {

using Pair = uint32_t;  // two BF16
inline constexpr auto kBf16 = wgmma::Input::kBf16;

// 16 bytes of a 128-byte row, as the copy engine swizzled it: by the row's place in 1024 bytes of shared
// memory.
__device__ inline uint4 piece(const unsigned char* box, int row, int chunk) {
  const unsigned char* line = box + row * 128;
  const int turn = static_cast<int>(reinterpret_cast<uintptr_t>(line) >> 7) & 7;
  return *reinterpret_cast<const uint4*>(line + ((chunk ^ turn) << 4));
}

// Of 16 rows of W and the tokens, in two halves of the inner dimension: products that do not wait for each
// other.
template <int kTokens>
struct Sums {
  float of_half[2][kTokens / 8][4] = {};

  __device__ float at(int j, int e) const { return of_half[0][j][e] + of_half[1][j][e]; }
};

// 16 rows of W by 8 tokens, 16 numbers of each.
template <Weights kWeights>
__device__ void multiply(float (&sums)[4], const uint4& w, uint32_t x_low, uint32_t x_high) {
  if constexpr (kWeights == Weights::kBf16)
    ptx::multiply_bf16(sums, w, x_low, x_high);
  else
    ptx::multiply_f16(sums, w, x_low, x_high);
}

// Rows of x are BF16 where W is, and F16 otherwise: the device widens FP8 to F16 in one instruction.
//
// sums += 16 rows from `row` of a box of W times the tokens' numbers in its boxes of x. Neighbouring threads
// take every other piece of a row: with the rows' swizzle no bank is asked twice.
template <class R, Weights kWeights, int kTokens>
__device__ void multiply_box(Sums<kTokens>& both, const unsigned char* w, int row, const unsigned char* x) {
  const int lane = threadIdx.x % 32, line = lane / 4, quarter = lane % 4;
  const auto token = [&](int j) { return R::kXBoxBytes == 128 ? 0 : j * 8 + line; };  // one row: all read it
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    auto& sums = both.of_half[half];
    const int chunk = quarter * 2 + half;
    const uint4 low = piece(w, row + line, chunk), high = piece(w, row + line + 8, chunk);
    const uint32_t low_words[4] = {low.x, low.y, low.z, low.w},
                   high_words[4] = {high.x, high.y, high.z, high.w};
    if constexpr (kWeights == Weights::kFp8) {
      const unsigned char* box = x + chunk / 4 * R::kXBoxBytes;
      uint32_t b[kTokens / 8][8];
#pragma unroll
      for (int j = 0; j < kTokens / 8; ++j) {
        const uint4 first = piece(box, token(j), chunk % 4 * 2),
                    second = piece(box, token(j), chunk % 4 * 2 + 1);
        b[j][0] = first.x, b[j][1] = first.y, b[j][2] = first.z, b[j][3] = first.w;
        b[j][4] = second.x, b[j][5] = second.y, b[j][6] = second.z, b[j][7] = second.w;
      }
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        Pair a0, a1, a2, a3;
        widen_fp8(low_words[s], a0, a2);
        widen_fp8(high_words[s], a1, a3);
#pragma unroll
        for (int j = 0; j < kTokens / 8; ++j)
          ptx::multiply_f16(sums[j], {a0, a1, a2, a3}, b[j][s * 2], b[j][s * 2 + 1]);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kTokens / 8; ++j) {
        const uint4 b = piece(x, token(j), chunk);
        multiply<kWeights>(sums[j], {low_words[0], high_words[0], low_words[1], high_words[1]}, b.x, b.y);
        multiply<kWeights>(sums[j], {low_words[2], high_words[2], low_words[3], high_words[3]}, b.z, b.w);
      }
    }
  }
}

// Partial sums go to parts[chunk][token][row]: chunk is the box of a gated tile, or which share of the inner
// dimension was added up.
template <int kTokens>
__device__ void put_sums(const Sums<kTokens>& sums, float* parts, int row_of_tile, int box_rows, int way) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = row_of_tile + lane / 4 + half * 8, box = row / box_rows;
    float* to = parts + (box + way) * (kTokens * kPartPitch) + row - box * box_rows;
#pragma unroll
    for (int j = 0; j < kTokens / 8; ++j) {
      const int token = j * 8 + (lane % 4) * 2;
      to[token * kPartPitch] = sums.at(j, half * 2);
      to[(token + 1) * kPartPitch] = sums.at(j, half * 2 + 1);
    }
  }
}

// The warps' shares of a gated tile: groups of 16 of its 4 * box_rows rows, two a warp at most.
template <int kTokens, Weights kWeights, class R>
__device__ void multiply_gated(const Op& op, const R& ring, int& i, float* parts) {
  const int warp = threadIdx.x / 32, groups = op.box_rows / 4;
  Sums<kTokens> sums[2];
  for (int k = 0; k < op.k_boxes; ++k, ++i) {
    ring.wait_x(i);
    ring.wait_w(i);
    if (warp < groups) multiply_box<R, kWeights, kTokens>(sums[0], ring.w(i), warp * 16, ring.x(i));
    if (warp + kConsumerWarps < groups)
      multiply_box<R, kWeights, kTokens>(sums[1], ring.w(i), (warp + kConsumerWarps) * 16, ring.x(i));
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(&ring.empty[i % R::kStages]);
  }
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const int group = warp + j * kConsumerWarps;
    if (group < groups) put_sums<kTokens>(sums[j], parts, group * 16, op.box_rows, 0);
  }
}

// … and of a plain tile: a group of 16 rows and a share of the inner dimension each.
template <int kTokens, Weights kWeights, class R>
__device__ void multiply_plain(const Op& op, const R& ring, int& i, float* parts) {
  const int warp = threadIdx.x / 32, group = warp / op.k_ways, way = warp % op.k_ways;
  const bool works = group * 16 < op.box_rows;
  Sums<kTokens> sums;
  for (int k = 0; k < op.k_boxes; k += op.boxes_per_stage, ++i) {
    ring.wait_x(i);
    ring.wait_w(i);
    const int count = works ? min(op.boxes_per_stage, op.k_boxes - k) : 0;
    for (int b = way; b < count; b += op.k_ways)
      multiply_box<R, kWeights, kTokens>(sums, ring.w(i) + b * op.box_rows * 128, group * 16,
          ring.x(i) + b * R::kXBoxesPerWBox * R::kXBoxBytes);
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::barrier_arrive(&ring.empty[i % R::kStages]);
  }
  if (works) put_sums<kTokens>(sums, parts, group * 16, op.box_rows, way);
}

__device__ inline float4 add(float4 a, float4 b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}
__device__ inline float4 times(float4 a, float4 b) {
  return make_float4(a.x * b.x, a.y * b.y, a.z * b.z, a.w * b.w);
}
__device__ inline float4 times(float4 a, float b) { return make_float4(a.x * b, a.y * b, a.z * b, a.w * b); }
__device__ inline float4 load4(const float* from) { return __ldg(reinterpret_cast<const float4*>(from)); }
__device__ inline uint2 narrow4(float4 v) {
  return make_uint2(pack_pair<kBf16>(v.x, v.y), pack_pair<kBf16>(v.z, v.w));
}
template <Weights kWeights>  // … in the type of the rows that the next product takes
__device__ inline uint2 narrow_row(float4 v) {
  if constexpr (kWeights == Weights::kBf16) return narrow4(v);
  const auto fit = [](float x) { return fminf(fmaxf(x, -65504.f), 65504.f); };
  constexpr auto kF16 = wgmma::Input::kF16;
  return make_uint2(pack_pair<kF16>(fit(v.x), fit(v.y)), pack_pair<kF16>(fit(v.z), fit(v.w)));
}
template <Weights kWeights>
__device__ inline uint32_t narrow_pair(float a, float b) {
  return narrow_row<kWeights>(make_float4(a, b, 0.f, 0.f)).x;
}
__device__ inline float4 widen4(uint2 raw) {
  const float2 low = unpack_pair<kBf16>(raw.x), high = unpack_pair<kBf16>(raw.y);
  return make_float4(low.x, low.y, high.x, high.y);
}

// What a tile's last arithmetic needs from memory, asked for before the products.
template <int kTokens>
struct Early {
  uint2 residual[kTokens / kConsumerWarps];
  float4 gain;
};

template <int kTokens>
__device__ Early<kTokens> load_early(const Params& p, const Op& op, int tile) {
  const int warp = threadIdx.x / 32, at = threadIdx.x % 32 * 4, output = tile * op.box_rows + at;
  Early<kTokens> early = {};
  if (op.residual == nullptr || at >= op.box_rows || output >= op.outputs) return early;
  early.gain = times(load4(op.gain + output), op.y_scale);
#pragma unroll
  for (int n = 0; n < kTokens / kConsumerWarps; ++n) {
    const int64_t token = warp + n * kConsumerWarps;
    if (token < p.rows)
      early.residual[n] = __ldcg(reinterpret_cast<const uint2*>(op.residual + token * op.outputs + output));
  }
  return early;
}

// 1 / rms of the warp's tokens, from the sums of squares of the operation before, added in a fixed order.
// Asked for before the products and added up behind them.
template <int kTokens>
struct RowScales {
  static constexpr int kEach = kTokens / kConsumerWarps, kAtOnce = 4;
  float parts[kEach][kAtOnce] = {};
  float scale[kEach];

  __device__ void ask(const Params& p, const Op& op) {
    if (op.square_sums == nullptr) return;
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
      const int token = threadIdx.x / 32 + n * kConsumerWarps, lane = threadIdx.x % 32;
      if (token >= p.rows) break;
      const float* sums = op.square_sums + token * kSumPitch;
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j)
        if (j * 32 + lane < op.num_square_sums) parts[n][j] = __ldcg(sums + j * 32 + lane);
      for (int i = kAtOnce * 32 + lane; i < op.num_square_sums; i += 32) parts[n][0] += __ldcg(sums + i);
    }
  }
  __device__ void finish(const Params& p, const Op& op) {
#pragma unroll
    for (int n = 0; n < kEach; ++n) {
      const float squares = warp_sum(parts[n][0] + parts[n][1] + parts[n][2] + parts[n][3]);
      scale[n] = op.x_scale;
      if (op.square_sums) scale[n] *= rsqrtf(squares / static_cast<float>(p.hidden) + p.norm_eps);
    }
  }
};

__device__ inline float4 scale_and_bias(const Op& op, float4 v, int row, float scale) {
  v = times(v, scale);
  if (op.row_scales) v = times(v, load4(op.row_scales + row));
  return op.bias ? add(v, load4(op.bias + row)) : v;
}

// A warp per token: adds the parts up and makes what the next operation takes.
template <int kTokens, Weights kWeights>
__device__ void finish_tile(const Params& p, const Op& op, int tile, const float* parts,
    const RowScales<kTokens>& scales, const Early<kTokens>& early) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, rows = op.box_rows;
  const int per_tile = op.up_row ? 2 * rows : rows;
#pragma unroll
  for (int n = 0; n < kTokens / kConsumerWarps; ++n) {
    const int token = warp + n * kConsumerWarps;
    if (token >= p.rows) break;
    const auto part = [&](int chunk, int row) {
      return *reinterpret_cast<const float4*>(parts + (chunk * kTokens + token) * kPartPitch + row);
    };
    const float scale = scales.scale[n];
    float squares = 0.f;
    for (int at = lane * 4; at < per_tile && tile * per_tile + at < op.outputs; at += 128) {
      const int output = tile * per_tile + at;
      float4 v;
      if (op.up_row) {
        const float4 g = scale_and_bias(op, part(at / rows, at % rows), output, scale);
        const float4 up = scale_and_bias(op, part(at / rows + 2, at % rows), output + op.up_row, scale);
        v = make_float4(hopper::gated_silu(g.x, up.x), hopper::gated_silu(g.y, up.y),
            hopper::gated_silu(g.z, up.z), hopper::gated_silu(g.w, up.w));
      } else {
        v = part(0, at);
        for (int way = 1; way < op.k_ways; ++way) v = add(v, part(way, at));
        v = scale_and_bias(op, v, output, scale);
      }
      const int64_t where = static_cast<int64_t>(token) * op.outputs + output;
      if (op.makes_logits) {
        *reinterpret_cast<float4*>(p.logits + where) = v;
        continue;
      }
      if (op.residual) v = add(v, widen4(early.residual[n]));
      const uint2 stored = op.up_row ? narrow_row<kWeights>(times(v, op.y_scale)) : narrow4(v);
      store_words(op.y + where, stored);
      if (op.gained) {
        const float4 kept = widen4(stored);
        squares += kept.x * kept.x + kept.y * kept.y + kept.z * kept.z + kept.w * kept.w;
        *reinterpret_cast<uint2*>(op.gained + where) = narrow_row<kWeights>(times(kept, early.gain));
      }
    }
    if (op.square_sums_out) {
      squares = warp_sum(squares);
      if (lane == 0) op.square_sums_out[token * kSumPitch + tile] = squares;
    }
  }
}

// The first norm's input: block t makes it of token t's embedding.
template <Weights kWeights>
__device__ void prepare_rows(const Params& p, const Op& op, float* shared) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int token = blockIdx.x; token < p.rows; token += gridDim.x) {
    const int64_t row = static_cast<int64_t>(token) * p.hidden;
    float squares = 0.f;
    for (int at = threadIdx.x * 4; at < p.hidden; at += kConsumerWarps * 128) {
      const float4 v = widen4(__ldcg(reinterpret_cast<const uint2*>(p.x + row + at)));
      squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
      *reinterpret_cast<uint2*>(op.gained + row + at) =
          narrow_row<kWeights>(times(v, times(load4(op.gain + at), op.y_scale)));
    }
    squares = warp_sum(squares);
    if (lane == 0) shared[warp] = squares;
    sync_consumers();
    if (threadIdx.x == 0) {
      float total = 0.f;
      for (int w = 0; w < kConsumerWarps; ++w) total += shared[w];
      op.square_sums_out[token * kSumPitch] = total;
    }
    sync_consumers();
  }
}

}  // namespace cheetah::gpu::chain
