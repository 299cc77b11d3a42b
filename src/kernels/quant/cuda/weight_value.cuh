// SPDX-License-Identifier: MIT
#pragma once
// One number of a stored row, widened to float: the same definitions as kernels/quant/reference.cpp.
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>

#include "kernels/quant/blocks.h"
#include "tensor/dtype.h"

namespace cheetah::gpu {

// Bytes of a row may start anywhere: read piece by piece.
__device__ inline uint16_t load_u16(const uint8_t* at) {
  return static_cast<uint16_t>(at[0] | static_cast<uint16_t>(at[1]) << 8);
}
__device__ inline uint32_t load_u32(const uint8_t* at) {
  return load_u16(at) | static_cast<uint32_t>(load_u16(at + 2)) << 16;
}
__device__ inline float load_f16(const uint8_t* at) { return __half2float(__ushort_as_half(load_u16(at))); }

__device__ inline int nibble(const uint8_t* q, int i) { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }

__device__ inline float f8_e4m3(uint8_t bits) {
  if ((bits & 0x7F) == 0x7F) return __uint_as_float(0x7FC00000u);  // the one NaN
  const float magnitude = __uint_as_float(static_cast<uint32_t>(bits & 0x7F) << 20) * 0x1p120f;
  return bits & 0x80 ? -magnitude : magnitude;
}

__device__ inline float small_block_value(DType dtype, const uint8_t* block, int i) {
  switch (dtype) {
    case DType::kQ4_0:
      return load_f16(block) * static_cast<float>(nibble(block + 2, i) - 8);
    case DType::kQ4_1:
      return load_f16(block) * static_cast<float>(nibble(block + 4, i)) + load_f16(block + 2);
    case DType::kQ5_0: {
      const int high = static_cast<int>((load_u32(block + 2) >> i) & 1u) << 4;
      return load_f16(block) * static_cast<float>((nibble(block + 6, i) | high) - 16);
    }
    case DType::kQ5_1: {
      const int high = static_cast<int>((load_u32(block + 4) >> i) & 1u) << 4;
      return load_f16(block) * static_cast<float>(nibble(block + 8, i) | high) + load_f16(block + 2);
    }
    case DType::kQ8_0:
      return load_f16(block) * static_cast<float>(static_cast<int8_t>(block[2 + i]));
    default: {  // MXFP4: a sign, two bits of exponent, one of mantissa; twice the value is an integer
      const int code = nibble(block + 1, i), exponent = (code >> 1) & 3, mantissa = code & 1;
      const int twice = exponent == 0 ? mantissa : (2 + mantissa) << (exponent - 1);
      return ldexpf(static_cast<float>(code & 8 ? -twice : twice), static_cast<int>(block[0]) - 128);
    }
  }
}

__device__ inline ScaleAndMin device_scale_and_min(const uint8_t* scales, int s) {
  if (s < 4) return {scales[s] & 63, scales[s + 4] & 63};
  return {(scales[s + 4] & 15) | ((scales[s - 4] >> 6) << 4), (scales[s + 4] >> 4) | ((scales[s] >> 6) << 4)};
}

__device__ inline float k_block_value(DType dtype, const uint8_t* bytes, int i) {
  if (dtype == DType::kQ6_K) {
    const auto* block = reinterpret_cast<const BlockQ6_K*>(bytes);
    const int half = i / 128, j = i % 128;
    const uint8_t packed = block->low[half * 64 + j % 64];
    const int low = j < 64 ? packed & 15 : packed >> 4;
    const int high = (block->high[half * 32 + j % 32] >> (2 * (j / 32))) & 3;
    const float scale = load_f16(bytes + offsetof(BlockQ6_K, d)) * static_cast<float>(block->scales[i / 16]);
    return scale * static_cast<float>((low | (high << 4)) - 32);
  }
  const int s = i / 32, j = i % 32;
  const ScaleAndMin pair = device_scale_and_min(bytes + offsetof(BlockQ4_K, scales), s);
  const bool five = dtype == DType::kQ5_K;
  const uint8_t* q = bytes + (five ? offsetof(BlockQ5_K, q) : offsetof(BlockQ4_K, q)) + (s / 2) * 32;
  int value = s % 2 ? q[j] >> 4 : q[j] & 15;
  if (five) value |= ((bytes[offsetof(BlockQ5_K, high) + static_cast<size_t>(j)] >> s) & 1) << 4;
  const float scale = load_f16(bytes) * static_cast<float>(pair.scale);
  return scale * static_cast<float>(value) - load_f16(bytes + 2) * static_cast<float>(pair.min);
}

// How many numbers a block of the type holds and in how many bytes; DTypeTraits on the device.
struct BlockShape {
  int elements;
  int bytes;
};

// Number k of a row stored as `dtype`, any type that dequantize_row takes.
__device__ inline float weight_value(DType dtype, BlockShape shape, const std::byte* row, int64_t k) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(row) + k / shape.elements * shape.bytes;
  const int i = static_cast<int>(k % shape.elements);
  switch (dtype) {
    case DType::kF32:
      return __uint_as_float(load_u32(bytes));
    case DType::kF16:
      return load_f16(bytes);
    case DType::kBF16:
      return __uint_as_float(static_cast<uint32_t>(load_u16(bytes)) << 16);
    case DType::kF64:
      return static_cast<float>(
          __hiloint2double(static_cast<int>(load_u32(bytes + 4)), static_cast<int>(load_u32(bytes))));
    case DType::kF8E4M3:
      return f8_e4m3(*bytes);
    case DType::kF8E5M2:
      return __half2float(__ushort_as_half(static_cast<uint16_t>(*bytes << 8)));
    case DType::kQ4_K:
    case DType::kQ5_K:
    case DType::kQ6_K:
      return k_block_value(dtype, bytes, i);
    default:
      return small_block_value(dtype, bytes, i);
  }
}

inline BlockShape block_shape(DType dtype) {
  const DTypeTraits& traits = traits_of(dtype);
  return {static_cast<int>(traits.block_elements), static_cast<int>(traits.block_bytes)};
}

}  // namespace cheetah::gpu
