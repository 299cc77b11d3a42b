// SPDX-License-Identifier: MIT
#pragma once
// Numbers into rows of the paged cache: the same codes as the CPU's, bit for bit.
#include "kernels/attention/cuda/cache_row.cuh"

namespace cheetah::gpu {

// Nearest E4M3 of a magnitude up to 448, ties to even.
__device__ inline uint8_t e4m3_code(float magnitude) {
  if (magnitude < 0x1p-6f) return static_cast<uint8_t>(rintf(magnitude * 512.f));
  const uint32_t bits = __float_as_uint(magnitude);
  const uint32_t rounded = (bits + 0x7FFFFu + ((bits >> 20) & 1u)) >> 20;
  return static_cast<uint8_t>(min(rounded - (120u << 3), 0x7Eu));
}

template <DType kCache>
__device__ uint8_t code_of(float value) {
  if constexpr (kCache == DType::kI8) {
    if (!(fabsf(value) <= 128.f)) return 0;  // NaN too
    return static_cast<uint8_t>(static_cast<int8_t>(fminf(fmaxf(rintf(value), -127.f), 127.f)));
  }
  if (!(fabsf(value) <= 512.f)) return 0;
  return static_cast<uint8_t>(e4m3_code(fminf(fabsf(value), 448.f)) | (signbit(value) ? 0x80 : 0));
}

// What a row's numbers are multiplied by before they become codes, and what undoes it.
struct RowScale {
  float inverse = 1.f;
  float scale = 1.f;
};
template <DType kCache>
__device__ RowScale row_scale_for(float largest) {
  constexpr float kTop = kCache == DType::kI8 ? 127.f : 448.f;
  return {.inverse = largest > 0.f ? kTop / largest : 0.f, .scale = largest / kTop};
}
// By the first four lanes of a warp.
__device__ inline void store_row_scale(const RowScale& row, int64_t dim, int lane, std::byte* to) {
  if (lane < 4) to[dim + lane] = static_cast<std::byte>(__float_as_uint(row.scale) >> (8 * lane));
}

template <DType kCache>
__device__ void store_number(float value, int64_t i, std::byte* to) {
  if constexpr (kCache == DType::kF32) reinterpret_cast<float*>(to)[i] = value;
  if constexpr (kCache == DType::kF16) reinterpret_cast<__half*>(to)[i] = __float2half_rn(value);
  if constexpr (kCache == DType::kBF16) reinterpret_cast<Bf16*>(to)[i] = narrow<Bf16>(value);
  if constexpr (kHasRowScale<kCache>) to[i] = std::byte{code_of<kCache>(value)};
}

// The place of a row of the batch in its page, or none for a row that only fills up the batch.
struct CachePlace {
  const int32_t* pages = nullptr;
  int64_t position = -1;
  __device__ CachePlace(const AttentionBatch& batch, int64_t row) : position(batch.positions[row]) {
    if (position >= 0) pages = batch.pages + batch.sequences[batch.row_sequence[row]].first_page;
  }
};

// Calls run with a constant for each type a cache can have.
template <class Run>
void with_cache_type(DType dtype, const Run& run) {
  switch (dtype) {
    case DType::kF16:
      return run(std::integral_constant<DType, DType::kF16>{});
    case DType::kBF16:
      return run(std::integral_constant<DType, DType::kBF16>{});
    case DType::kI8:
      return run(std::integral_constant<DType, DType::kI8>{});
    case DType::kF8E4M3:
      return run(std::integral_constant<DType, DType::kF8E4M3>{});
    default:
      return run(std::integral_constant<DType, DType::kF32>{});
  }
}

}  // namespace cheetah::gpu
