// SPDX-License-Identifier: MIT
#pragma once
// Logits as numbers that sort: the larger logit first, among equals the lower id. NaN is never picked.
#include <cstdint>

#include "kernels/cuda/reduce.cuh"
#include "kernels/sample/sample_cuda.h"

namespace cheetah::gpu {

// Grows with the logit; 0 only for NaN. Both zeros are one.
__device__ inline uint32_t key_of(float logit) {
  if (isnan(logit)) return 0;
  const uint32_t bits = __float_as_uint(logit + 0.f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
__device__ inline float logit_of(uint32_t key) {
  return __uint_as_float(key & 0x80000000u ? key & 0x7FFFFFFFu : ~key);
}
inline constexpr uint32_t kNeverKey = 0x007FFFFFu;  // of minus infinity

__device__ inline uint64_t pick_of(float logit, int id) {
  return static_cast<uint64_t>(key_of(logit)) << 32 | (0xFFFFFFFFu - static_cast<uint32_t>(id));
}
__device__ inline uint32_t key_in(uint64_t pick) { return static_cast<uint32_t>(pick >> 32); }
__device__ inline int id_in(uint64_t pick) {  // all NaN: the first
  return key_in(pick) == 0 ? 0 : static_cast<int>(0xFFFFFFFFu - static_cast<uint32_t>(pick));
}
__device__ inline float logit_in(uint64_t pick) {
  return key_in(pick) == 0 ? logit_of(kNeverKey) : logit_of(key_in(pick));
}

// exp((logit - peak) * factor), 0 for NaN.
__device__ inline float weight_of(float logit, float peak, float factor) {
  const float weight = expf((logit - peak) * factor);
  return weight > 0.f ? weight : 0.f;
}

__device__ inline uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

// Over the block; every thread gets the result, and `scratch` (one per warp) may be used again after the call.
template <int kThreads, class T, class Join>
__device__ T block_join(T value, T* scratch, const Join& join) {
  for (int step = kWarpSize / 2; step > 0; step /= 2)
    value = join(value, __shfl_xor_sync(kWholeWarp, value, step));
  if (threadIdx.x % kWarpSize == 0) scratch[threadIdx.x / kWarpSize] = value;
  __syncthreads();
  T all = scratch[0];
  for (int i = 1; i < kThreads / kWarpSize; ++i) all = join(all, scratch[i]);
  __syncthreads();
  return all;
}
template <int kThreads>
__device__ double block_total(double value, double* scratch) {
  return block_join<kThreads>(value, scratch, [](double a, double b) { return a + b; });
}
template <int kThreads>
__device__ uint64_t block_best(uint64_t value, uint64_t* scratch) {
  return block_join<kThreads>(value, scratch, larger);
}

// The sum of the values of the threads before this one.
template <int kThreads>
__device__ double block_sum_before(double value, double* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize,
            warp = static_cast<int>(threadIdx.x) / kWarpSize;
  double sum = value;
  for (int step = 1; step < kWarpSize; step *= 2) {
    const double other = __shfl_up_sync(kWholeWarp, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == kWarpSize - 1) scratch[warp] = sum;
  __syncthreads();
  double before = 0;
  for (int i = 0; i < warp; ++i) before += scratch[i];
  __syncthreads();
  return before + sum - value;
}

// The row that an entry chooses from.
__device__ inline const float* row_of(const SampleArgs& args, const SampleEntry& entry) {
  if (entry.changed_row >= 0) return args.changed + entry.changed_row * args.vocab;
  return args.logits + entry.logits * args.vocab;
}
__device__ inline bool filters(const SampleEntry& entry) {
  return entry.inverse_temperature > 0.f && (entry.top_k > 0 || entry.top_p < 1.f || entry.min_p > 0.f);
}

// filter.cu
void choose_filtered(const SampleArgs& args, Stream& stream);
void fill_logprobs(const SampleArgs& args, Stream& stream);

}  // namespace cheetah::gpu
