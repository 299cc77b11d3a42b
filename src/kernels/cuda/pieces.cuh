// SPDX-License-Identifier: MIT
#pragma once
// Sixteen bytes at a time: the widest access a thread makes.
#include <cstdint>

#include "kernels/cuda/numbers.cuh"

namespace cheetah::gpu {

template <class T>
inline constexpr int kPieceNumbers = 16 / static_cast<int>(sizeof(T));

template <class T>
__device__ inline void widen_piece(const uint4& raw, float* to) {
  const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      to[i] = __uint_as_float(words[i]);
    } else {
      to[2 * i] = __uint_as_float(words[i] << 16);
      to[2 * i + 1] = __uint_as_float(words[i] & 0xFFFF0000u);
    }
  }
}

template <class T>
__device__ inline uint4 narrow_piece(const float* from) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      words[i] = __float_as_uint(from[i]);
    } else {
      const __nv_bfloat162 pair = __floats2bfloat162_rn(from[2 * i], from[2 * i + 1]);
      words[i] = *reinterpret_cast<const uint32_t*>(&pair);
    }
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

__device__ inline void load_floats(const float* from, float* to, int count) {
#pragma unroll
  for (int i = 0; i < count; i += 4) {
    const float4 v = *reinterpret_cast<const float4*>(from + i);
    to[i] = v.x;
    to[i + 1] = v.y;
    to[i + 2] = v.z;
    to[i + 3] = v.w;
  }
}

// Whether rows that start here, `stride` numbers apart, can be read in pieces.
template <class T>
bool in_pieces(const T* data, int64_t stride) {
  return reinterpret_cast<uintptr_t>(data) % 16 == 0 && stride % kPieceNumbers<T> == 0;
}

}  // namespace cheetah::gpu
