// SPDX-License-Identifier: MIT
#pragma once
// What the Hopper attention kernels share.
#include <algorithm>

#include "gpu/tensor_map.h"
#include "kernels/attention/cuda/hopper.h"

namespace cheetah::gpu::hopper {

inline constexpr float kLog2E = 1.4426950408889634f;

__device__ inline float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Over the four lanes that share a row of a product's result.
__device__ inline float quad_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(~0u, v, 1));
  return fmaxf(v, __shfl_xor_sync(~0u, v, 2));
}
__device__ inline float quad_sum(float v) {
  v += __shfl_xor_sync(~0u, v, 1);
  return v + __shfl_xor_sync(~0u, v, 2);
}

// Keys or values [pages, kv_heads, page_tokens, head_dim], copied 64 numbers of at most max_rows rows of a
// page at a time. How many pages there are does not matter: indices come from the block tables.
inline TensorMap cache_map(const PagedKv& kv, const std::byte* data, int max_rows) {
  constexpr int64_t kAnyPages = int64_t{1} << 24;
  const int64_t row = kv.key_dim * 2, page = row * kv.page_tokens;
  return make_tensor_map(
      data, {.element = TensorElement::kBF16,
                .rank = 4,
                .dims = {kv.key_dim, kv.page_tokens, kv.kv_heads, kAnyPages},
                .strides = {row, page, page * kv.kv_heads},
                .box = {64, static_cast<int>(std::min<int64_t>(kv.page_tokens, max_rows)), 1, 1}});
}

}  // namespace cheetah::gpu::hopper
