// SPDX-License-Identifier: MIT
#pragma once
// Sixteen cached tokens in a warp's registers, and the products made of them, for each type a cache may have.
// Lane 4 l + q (line l, quarter q) holds, of the keys of tokens l and l + 8, every fourth piece of a few
// numbers, of the values of tokens 2 q + {0, 1, 8, 9} the l-th eighth. Which inner index numbers have in the
// tensor cores' eyes does not matter as long as keys and queries agree.
#include "kernels/attention/cuda/hopper_math.cuh"
#include "kernels/decode_chain/cuda/chain_product.cuh"

namespace cheetah::gpu::chain {

inline constexpr int kUnit = 16;  // tokens

__device__ inline int lane_line() { return static_cast<int>(threadIdx.x % 32 / 4); }
__device__ inline int lane_quarter() { return static_cast<int>(threadIdx.x % 4); }
__device__ inline int value_token(int i) { return 2 * lane_quarter() + (i & 1) + (i >> 1) * 8; }

// BF16 numbers to floats.
__device__ inline void widen_piece(const uint2& raw, float (&v)[4]) {
  const float4 numbers = widen4(raw);
  v[0] = numbers.x, v[1] = numbers.y, v[2] = numbers.z, v[3] = numbers.w;
}
__device__ inline void widen_piece(const uint4& raw, float (&v)[8]) {
  const float4 low = widen4(make_uint2(raw.x, raw.y)), high = widen4(make_uint2(raw.z, raw.w));
  v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w;
  v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
}

// Rows and columns of 8 x 8 numbers, a pair a lane.
__device__ inline Pair transpose(Pair x) {
  Pair y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

template <int kHeadDim>
struct Bf16Unit {
  static constexpr int kDim = kHeadDim, kRowBytes = kDim * 2;
  static constexpr int kPiece = 8, kPieces = kDim / 32;  // numbers; a lane's of a key or query
  static constexpr int kValuePieces = kDim / 64;
  using Piece = uint4;                     // as BF16
  using Numbers = float[kPieces][kPiece];  // 4 kPiece j + kPiece quarter + e
  using OfValue = uint4[kDim / 64];        // a lane's BF16 numbers of a value

  uint4 keys[2][kPieces], values[4][kValuePieces], q[kPieces];

  __device__ void load_key(int half, const std::byte* row) {  // none: reads as zero
    const auto* from = reinterpret_cast<const uint4*>(row);
#pragma unroll
    for (int j = 0; j < kPieces; ++j) keys[half][j] = row ? __ldcs(from + j * 4 + lane_quarter()) : uint4{};
  }
  __device__ void load_value(int i, const std::byte* row) {
    const auto* from = reinterpret_cast<const uint4*>(row) + lane_line() * kValuePieces;
#pragma unroll
    for (int j = 0; j < kValuePieces; ++j) values[i][j] = row ? __ldcs(from + j) : uint4{};
  }
  __device__ void load_value_scale(int, const std::byte*) {}

  __device__ static uint4 pack(const float (&v)[8]) {
    return make_uint4(pack_pair<kBf16>(v[0], v[1]), pack_pair<kBf16>(v[2], v[3]),
        pack_pair<kBf16>(v[4], v[5]), pack_pair<kBf16>(v[6], v[7]));
  }
  __device__ void put_query(const Numbers& v) {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) q[j] = pack(v[j]);
  }
  // The step's own token, at place `at` of the unit, to registers and cache.
  __device__ void put_key(const Numbers& v, int at, std::byte* row) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (lane_line() + half * 8 == at)
#pragma unroll
        for (int j = 0; j < kPieces; ++j) {
          keys[half][j] = pack(v[j]);
          reinterpret_cast<uint4*>(row)[j * 4 + lane_quarter()] = keys[half][j];
        }
  }
  __device__ void put_value(const OfValue& v, int at, std::byte* row) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (value_token(i) == at)
#pragma unroll
        for (int j = 0; j < kValuePieces; ++j) {
          values[i][j] = v[j];
          reinterpret_cast<uint4*>(row)[lane_line() * kValuePieces + j] = v[j];
        }
  }

  // scores[e]: token line + e / 2 * 8, head 2 quarter + e % 2.
  __device__ void score(float (&scores)[4]) const {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      ptx::multiply_bf16(scores, {keys[0][j].x, keys[1][j].x, keys[0][j].y, keys[1][j].y}, q[j].x, q[j].y);
      ptx::multiply_bf16(scores, {keys[0][j].z, keys[1][j].z, keys[0][j].w, keys[1][j].w}, q[j].z, q[j].w);
    }
  }
  // out[t]: numbers line * kDim / 8 + 2 t (+ 1), heads 2 quarter (+ 1).
  __device__ void add_values(float (&out)[kDim / 16][4], const float (&weights)[4]) const {
    const Pair b0 = transpose(pack_pair<kBf16>(weights[0], weights[1]));
    const Pair b1 = transpose(pack_pair<kBf16>(weights[2], weights[3]));
#pragma unroll
    for (int j = 0; j < kValuePieces; ++j) {
      const uint32_t v[4][4] = {{values[0][j].x, values[0][j].y, values[0][j].z, values[0][j].w},
          {values[1][j].x, values[1][j].y, values[1][j].z, values[1][j].w},
          {values[2][j].x, values[2][j].y, values[2][j].z, values[2][j].w},
          {values[3][j].x, values[3][j].y, values[3][j].z, values[3][j].w}};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        ptx::multiply_bf16(out[j * 4 + i],
            {__byte_perm(v[0][i], v[1][i], 0x5410), __byte_perm(v[0][i], v[1][i], 0x7632),
                __byte_perm(v[2][i], v[3][i], 0x5410), __byte_perm(v[2][i], v[3][i], 0x7632)},
            b0, b1);
    }
  }
};

// Rows of E4M3 numbers with their scale behind them (scaled_row.h). The device widens FP8 to F16 in one
// instruction, so the products are of F16; a key's scale goes to its score, a value's to its weight.
template <int kHeadDim>
struct Fp8Unit {
  static constexpr int kDim = kHeadDim, kRowBytes = kDim + 4;
  static constexpr int kPiece = 4, kPieces = kDim / 16;
  static constexpr int kValueWords = kDim / 32;
  static constexpr auto kF16 = wgmma::Input::kF16;
  using Piece = uint2;
  using Numbers = float[kPieces][kPiece];
  using OfValue = uint4[kDim / 64];

  uint32_t keys[2][kPieces], values[4][kValueWords];
  uint2 q[kPieces];
  float key_scales[2], value_scales[2];  // of tokens line and line + 8

  // Rows begin at any word.
  __device__ static uint32_t word(const std::byte* row, int i) {
    return row ? __ldcs(reinterpret_cast<const unsigned*>(row) + i) : 0u;
  }
  __device__ void load_key(int half, const std::byte* row) {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) keys[half][j] = word(row, j * 4 + lane_quarter());
    key_scales[half] = __uint_as_float(word(row, kDim / 4));
  }
  __device__ void load_value(int i, const std::byte* row) {
#pragma unroll
    for (int j = 0; j < kValueWords; ++j) values[i][j] = word(row, lane_line() * kValueWords + j);
  }
  __device__ void load_value_scale(int half, const std::byte* row) {
    value_scales[half] = __uint_as_float(word(row, kDim / 4));
  }

  __device__ void put_query(const Numbers& v) {
    const auto fit = [](float x) { return fminf(fmaxf(x, -65504.f), 65504.f); };
#pragma unroll
    for (int j = 0; j < kPieces; ++j)
      q[j] = make_uint2(
          pack_pair<kF16>(fit(v[j][0]), fit(v[j][1])), pack_pair<kF16>(fit(v[j][2]), fit(v[j][3])));
  }
  // The same codes as cache_store.cuh's: the nearest, ties to even.
  __device__ static uint32_t codes(float a, float b, float c, float d, float inverse) {
    uint32_t four;
    asm("{\n.reg .b16 l, h;\n"
        "cvt.rn.satfinite.e4m3x2.f32 l, %2, %1;\ncvt.rn.satfinite.e4m3x2.f32 h, %4, %3;\n"
        "mov.b32 %0, {l, h};\n}"
        : "=r"(four)
        : "f"(a * inverse), "f"(b * inverse), "f"(c * inverse), "f"(d * inverse));
    return four;
  }
  __device__ static float inverse_of(float largest) { return largest > 0.f ? 448.f / largest : 0.f; }
  __device__ static void store(std::byte* row, int i, uint32_t what) {
    reinterpret_cast<uint32_t*>(row)[i] = what;
  }
  __device__ void put_key(const Numbers& exact, int at, std::byte* row) {
    Numbers v;  // as BF16, as where the cache is written in a step of its own
    float largest = 0.f;
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      widen_piece(narrow4(make_float4(exact[j][0], exact[j][1], exact[j][2], exact[j][3])), v[j]);
#pragma unroll
      for (int e = 0; e < kPiece; ++e) largest = fmaxf(largest, fabsf(v[j][e]));
    }
    largest = hopper::quad_max(largest);
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (lane_line() + half * 8 == at) {
#pragma unroll
        for (int j = 0; j < kPieces; ++j) {
          keys[half][j] = codes(v[j][0], v[j][1], v[j][2], v[j][3], inverse_of(largest));
          store(row, j * 4 + lane_quarter(), keys[half][j]);
        }
        key_scales[half] = largest / 448.f;
        if (lane_quarter() == 0) store(row, kDim / 4, __float_as_uint(key_scales[half]));
      }
  }
  __device__ void put_value(const OfValue& v, int at, std::byte* row) {
    float4 numbers[kValueWords];
    float largest = 0.f;
#pragma unroll
    for (int j = 0; j < kValueWords; ++j) {
      numbers[j] =
          widen4(j % 2 == 0 ? make_uint2(v[j / 2].x, v[j / 2].y) : make_uint2(v[j / 2].z, v[j / 2].w));
      largest = fmaxf(largest, fmaxf(fmaxf(fabsf(numbers[j].x), fabsf(numbers[j].y)),
                                   fmaxf(fabsf(numbers[j].z), fabsf(numbers[j].w))));
    }
#pragma unroll
    for (int step = 4; step < 32; step *= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
    const float scale = largest / 448.f;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (value_token(i) == at) {
#pragma unroll
        for (int j = 0; j < kValueWords; ++j) {
          values[i][j] = codes(numbers[j].x, numbers[j].y, numbers[j].z, numbers[j].w, inverse_of(largest));
          store(row, lane_line() * kValueWords + j, values[i][j]);
        }
        if (lane_line() == 0) store(row, kDim / 4, __float_as_uint(scale));
      }
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (lane_line() + half * 8 == at) value_scales[half] = scale;
  }

  __device__ void score(float (&scores)[4]) const {
#pragma unroll
    for (int j = 0; j < kPieces; ++j) {
      uint32_t low[2], high[2];
      widen_fp8(keys[0][j], low[0], high[0]);
      widen_fp8(keys[1][j], low[1], high[1]);
      ptx::multiply_f16(scores, {low[0], low[1], high[0], high[1]}, q[j].x, q[j].y);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) scores[e] *= key_scales[e / 2];
  }
  __device__ void add_values(float (&out)[kDim / 16][4], const float (&weights)[4]) const {
    const Pair b0 = transpose(pack_pair<kF16>(weights[0] * value_scales[0], weights[1] * value_scales[0]));
    const Pair b1 = transpose(pack_pair<kF16>(weights[2] * value_scales[1], weights[3] * value_scales[1]));
#pragma unroll
    for (int j = 0; j < kValueWords; ++j) {
      uint32_t low[4], high[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) widen_fp8(values[i][j], low[i], high[i]);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t(&v)[4] = i == 0 ? low : high;
        ptx::multiply_f16(out[j * 2 + i],
            {__byte_perm(v[0], v[1], 0x5410), __byte_perm(v[0], v[1], 0x7632),
                __byte_perm(v[2], v[3], 0x5410), __byte_perm(v[2], v[3], 0x7632)},
            b0, b1);
      }
    }
  }
};

}  // namespace cheetah::gpu::chain
