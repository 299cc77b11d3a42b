// SPDX-License-Identifier: MIT
#pragma once
// Rows of the paged cache on the device: where they lie and what their codes mean
// (kernels/attention/scaled_row.h).
#include <cuda_fp16.h>

#include <type_traits>

#include "kernels/attention/attention_cuda.h"
#include "kernels/cuda/numbers.cuh"

namespace cheetah::gpu {

template <DType kCache>
inline constexpr bool kHasRowScale = kCache == DType::kI8 || kCache == DType::kF8E4M3;
template <DType kCache>
inline constexpr int64_t kCodeBytes = kCache == DType::kF32  ? 4
                                      : kHasRowScale<kCache> ? 1
                                                             : 2;

template <DType kCache>
__device__ int64_t device_row_bytes(int64_t dim) {
  return dim * kCodeBytes<kCache> + (kHasRowScale<kCache> ? 4 : 0);
}

// The index of a position's row among all rows of its kind.
__device__ inline int64_t cache_row(const PagedKv& kv, const int32_t* pages, int64_t head, int64_t position) {
  const int64_t page = pages[position / kv.page_tokens];
  return (page * kv.kv_heads + head) * kv.page_tokens + position % kv.page_tokens;
}

// Rows of 8-bit caches start anywhere: their scale is read byte by byte.
__device__ inline float load_row_scale(const std::byte* at) {
  uint32_t bits = 0;
  for (int i = 0; i < 4; ++i) bits |= static_cast<uint32_t>(at[i]) << (8 * i);
  return __uint_as_float(bits);
}

template <DType kCache>
__device__ float row_scale(const std::byte* row, int64_t dim) {
  if constexpr (kHasRowScale<kCache>) return load_row_scale(row + dim);
  return 1.f;
}

// Number i of a row, before its scale.
template <DType kCache>
__device__ float cached(const std::byte* row, int64_t i) {
  if constexpr (kCache == DType::kF32) return reinterpret_cast<const float*>(row)[i];
  if constexpr (kCache == DType::kF16) return __half2float(reinterpret_cast<const __half*>(row)[i]);
  if constexpr (kCache == DType::kBF16) return widen(reinterpret_cast<const Bf16*>(row)[i]);
  const auto bits = static_cast<uint32_t>(row[i]);
  if constexpr (kCache == DType::kI8) return static_cast<float>(static_cast<int8_t>(bits));
  const float magnitude = __uint_as_float((bits & 0x7Fu) << 20) * 0x1p120f;
  return bits & 0x80u ? -magnitude : magnitude;
}

}  // namespace cheetah::gpu
