// SPDX-License-Identifier: MIT
#pragma once
// 32 neighbouring numbers of a stored row as whole numbers of eight bits: w = scale * level + offset.
#include <cuda_fp16.h>

#include "kernels/quant/cuda/weight_value.cuh"

namespace cheetah::gpu::blocks {

// Levels of 32 numbers, four per word. Where a type has a scale for every 16, the two halves differ.
struct Levels {
  uint32_t words[8];
  float scale[2], offset[2];
};

template <DType kDType>
struct Format;  // kElements and kBytes of a block, kParts: scales of 32 numbers, kOffset: whether there are
                // any

__device__ inline float half_of(uint32_t bits) {
  return __half2float(__ushort_as_half(static_cast<uint16_t>(bits)));
}

// Words from any address: whole ones are read and put together, none that lies past them.
template <int kCount>
__device__ inline void load_words(const uint8_t* at, uint32_t (&words)[kCount]) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  const auto* whole = reinterpret_cast<const uint32_t*>(address & ~uintptr_t{3});
  const auto shift = static_cast<uint32_t>(address & 3) * 8;
  uint32_t low = whole[0];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const uint32_t high = i + 1 < kCount || shift != 0 ? whole[i + 1] : 0;
    words[i] = __funnelshift_r(low, high, shift);
    low = high;
  }
}

template <>
struct Format<DType::kQ8_0> {
  static constexpr int kElements = 32, kBytes = 34;
  static constexpr int kParts = 1;
  static constexpr bool kOffset = false;
  __device__ static Levels read(const uint8_t* block, unsigned) {
    Levels result{};
    load_words(block + 2, result.words);
    result.scale[0] = half_of(*reinterpret_cast<const uint16_t*>(block));
    return result;
  }
};

template <>
struct Format<DType::kQ4_0> {
  static constexpr int kElements = 32, kBytes = 18;
  static constexpr int kParts = 1;
  static constexpr bool kOffset = true;
  __device__ static Levels read(const uint8_t* block, unsigned) {
    Levels result{};
    uint32_t packed[4];
    load_words(block + 2, packed);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      result.words[i] = packed[i] & 0x0F0F0F0Fu;
      result.words[i + 4] = (packed[i] >> 4) & 0x0F0F0F0Fu;
    }
    result.scale[0] = half_of(*reinterpret_cast<const uint16_t*>(block));
    result.offset[0] = -8.f * result.scale[0];
    return result;
  }
};

// Sub-block s of Q4_K and Q5_K; blocks are multiples of 16 bytes and lie so.
__device__ inline void read_k_scales(const uint8_t* block, unsigned s, Levels& result) {
  const uint4 head = *reinterpret_cast<const uint4*>(block);  // d and dmin, then 12 bytes of scales
  const unsigned shift = s % 4 * 8, low = head.y >> shift, high = head.z >> shift, last = head.w >> shift;
  const unsigned scale = s < 4 ? low & 63 : (last & 15) | ((low >> 2) & 0x30);
  const unsigned min = s < 4 ? high & 63 : ((last >> 4) & 15) | ((high >> 2) & 0x30);
  result.scale[0] = half_of(head.x) * static_cast<float>(scale);
  result.offset[0] = -half_of(head.x >> 16) * static_cast<float>(min);
}
__device__ inline void read_nibbles(const uint8_t* q, unsigned shift, uint32_t (&words)[8]) {
  const uint4 low = reinterpret_cast<const uint4*>(q)[0], high = reinterpret_cast<const uint4*>(q)[1];
  const uint32_t packed[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
  for (int i = 0; i < 8; ++i) words[i] = (packed[i] >> shift) & 0x0F0F0F0Fu;
}

template <>
struct Format<DType::kQ4_K> {
  static constexpr int kElements = 256, kBytes = 144;
  static constexpr int kParts = 1;
  static constexpr bool kOffset = true;
  __device__ static Levels read(const uint8_t* block, unsigned s) {
    Levels result{};
    read_k_scales(block, s, result);
    read_nibbles(block + offsetof(BlockQ4_K, q) + s / 2 * 32, s % 2 * 4, result.words);
    return result;
  }
};

template <>
struct Format<DType::kQ5_K> {
  static constexpr int kElements = 256, kBytes = 176;
  static constexpr int kParts = 1;
  static constexpr bool kOffset = true;
  __device__ static Levels read(const uint8_t* block, unsigned s) {
    Levels result{};
    read_k_scales(block, s, result);
    read_nibbles(block + offsetof(BlockQ5_K, q) + s / 2 * 32, s % 2 * 4, result.words);
    const auto* fifth = reinterpret_cast<const uint4*>(block + offsetof(BlockQ5_K, high));
    const uint4 low = fifth[0], high = fifth[1];
    const uint32_t bits[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 8; ++i) result.words[i] |= ((bits[i] >> s) & 0x01010101u) << 4;
    return result;
  }
};

template <>
struct Format<DType::kQ6_K> {
  static constexpr int kElements = 256, kBytes = 210;
  static constexpr int kParts = 2;
  static constexpr bool kOffset = true;
  __device__ static Levels read(const uint8_t* block, unsigned s) {
    Levels result{};
    const unsigned half = s / 4, part = s % 4;
    uint32_t low[8], high[8];
    load_words(block + half * 64 + part % 2 * 32, low);
    load_words(block + offsetof(BlockQ6_K, high) + half * 32, high);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      result.words[i] =
          ((low[i] >> (part / 2 * 4)) & 0x0F0F0F0Fu) | (((high[i] >> (part * 2)) & 0x03030303u) << 4);
    const float d = half_of(*reinterpret_cast<const uint16_t*>(block + offsetof(BlockQ6_K, d)));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const auto scale = static_cast<int8_t>(block[offsetof(BlockQ6_K, scales) + s * 2 + i]);
      result.scale[i] = d * static_cast<float>(scale);
      result.offset[i] = -32.f * result.scale[i];
    }
    return result;
  }
};

}  // namespace cheetah::gpu::blocks
