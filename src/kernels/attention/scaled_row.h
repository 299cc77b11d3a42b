// SPDX-License-Identifier: MIT
#pragma once
// How rows lie in the cache. Those of an 8-bit one: `dim` codes (I8 levels or F8_E4M3), then their scale as
// an F32. One scale a row, so that a token is written once and never touched again.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/attention/attention.h"
#include "tensor/dtype.h"

namespace cheetah {

inline bool has_row_scale(DType cache) { return cache == DType::kI8 || cache == DType::kF8E4M3; }

// Keys [key_dim, page_tokens] within a page and head, not [page_tokens, key_dim].
inline bool keys_lie_by_dimension(const PagedKv& kv) { return kv.values && !has_row_scale(kv.dtype); }

// Bytes of one key or value row of the cache.
inline int64_t cache_row_bytes(DType cache, int64_t dim) {
  return row_bytes(cache, dim) + (has_row_scale(cache) ? static_cast<int64_t>(sizeof(float)) : 0);
}

inline float row_scale(const std::byte* row, int64_t dim) {
  float scale;
  std::memcpy(&scale, row + dim, sizeof(scale));
  return scale;
}

// The code before scaling, exactly.
inline float code_value(DType cache, std::byte code) {
  if (cache == DType::kI8) return static_cast<float>(static_cast<int8_t>(code));
  const auto bits = static_cast<uint32_t>(code);
  const float magnitude = std::bit_cast<float>((bits & 0x7Fu) << 20) * 0x1p120f;
  return bits & 0x80u ? -magnitude : magnitude;
}

// Nearest E4M3 of a magnitude up to 448, ties to even.
inline uint8_t e4m3_code(float magnitude) {
  constexpr float kLeastNormal = 0x1p-6f;
  if (magnitude < kLeastNormal) return static_cast<uint8_t>(std::nearbyint(magnitude * 512.f));
  const auto bits = std::bit_cast<uint32_t>(magnitude);
  const uint32_t rounded = (bits + 0x7FFFFu + ((bits >> 20) & 1u)) >> 20;
  return static_cast<uint8_t>(std::min(rounded - (120u << 3), 0x7Eu));
}

// The largest magnitude gets the largest code.
inline void store_scaled_row(DType cache, const float* from, int64_t dim, std::byte* to) {
  float largest = 0.f;
  for (int64_t i = 0; i < dim; ++i) largest = std::max(largest, std::fabs(from[i]));
  const float top = cache == DType::kI8 ? 127.f : 448.f;
  const float scale = largest / top, inverse = largest > 0.f ? top / largest : 0.f;
  for (int64_t i = 0; i < dim; ++i) {
    const float value = from[i] * inverse;
    uint8_t code = 0;  // of NaN too
    if (cache == DType::kI8) {
      if (std::fabs(value) <= 128.f)
        code = static_cast<uint8_t>(static_cast<int8_t>(std::clamp(std::nearbyint(value), -127.f, 127.f)));
    } else if (std::fabs(value) <= 512.f) {
      code = static_cast<uint8_t>(
          e4m3_code(std::min(std::fabs(value), 448.f)) | (std::signbit(value) ? 0x80 : 0));
    }
    to[i] = std::byte{code};
  }
  std::memcpy(to + dim, &scale, sizeof(scale));
}

}  // namespace cheetah
