// SPDX-License-Identifier: MIT
#pragma once
// Sums and maxima over a warp or a block; every thread gets the result, in an order that never changes.
#include <cstdint>

namespace cheetah::gpu {

inline constexpr unsigned kWholeWarp = 0xFFFFFFFFu;
inline constexpr int kWarpSize = 32;

__device__ inline float warp_sum(float value) {
  for (int step = kWarpSize / 2; step > 0; step /= 2) value += __shfl_xor_sync(kWholeWarp, value, step);
  return value;
}

__device__ inline float warp_max(float value) {
  for (int step = kWarpSize / 2; step > 0; step /= 2)
    value = fmaxf(value, __shfl_xor_sync(kWholeWarp, value, step));
  return value;
}

// kThreads is the block's size, a multiple of 32. `scratch` holds kThreads / 32 floats and may be used again
// after the call.
template <int kThreads>
__device__ float block_sum(float value, float* scratch) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  value = warp_sum(value);
  if (threadIdx.x % kWarpSize == 0) scratch[warp] = value;
  __syncthreads();
  float sum = 0.f;
  for (int i = 0; i < kThreads / kWarpSize; ++i) sum += scratch[i];
  __syncthreads();
  return sum;
}

template <int kThreads>
__device__ float block_max(float value, float* scratch) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  value = warp_max(value);
  if (threadIdx.x % kWarpSize == 0) scratch[warp] = value;
  __syncthreads();
  float most = scratch[0];
  for (int i = 1; i < kThreads / kWarpSize; ++i) most = fmaxf(most, scratch[i]);
  __syncthreads();
  return most;
}

}  // namespace cheetah::gpu
