// SPDX-License-Identifier: MIT
#pragma once
// The oracle for sums over a whole array, modulo 2^32: pieces added by one thread each, then one thread for
// the pieces.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {

inline constexpr int64_t kPieceNumbers = 4096;

namespace device_trial {
// Static: each source has its own.
static __global__ void add_pieces(const uint32_t* x, uint32_t* pieces, int64_t n) {
  const int64_t p = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (p * kPieceNumbers >= n) return;
  uint32_t sum = 0;
  for (int64_t i = p * kPieceNumbers; i < (p + 1) * kPieceNumbers && i < n; ++i) sum += x[i];
  pieces[p] = sum;
}
}  // namespace device_trial

struct PieceTotal {
  const uint32_t* pieces;
  int64_t count;
  uint32_t times;  // how often the array is added up
  __device__ double operator()(int64_t) const {
    uint32_t sum = 0;
    for (int64_t p = 0; p < count; ++p) sum += pieces[p];
    return sum * times;
  }
};

// Expects `sum` to become `times` the sum of x.
static inline void expect_total(
    DeviceTrial& trial, Slot<uint32_t> x, Slot<uint32_t> sum, uint32_t times = 1) {
  const auto pieces = trial.scratch<uint32_t>(blocks_of(x.count, kPieceNumbers));
  trial.after_fill([=](const At& at) {
    gpu::launch({.kernel = "add_pieces", .grid = {blocks_of(pieces.count, 64)}, .block = {64}}, at.stream(),
        device_trial::add_pieces, at[x], at[pieces], x.count);
  });
  trial.expect<PieceTotal>(sum, [=](const At& at) { return PieceTotal{at[pieces], pieces.count, times}; });
}

}  // namespace cheetah::lab
