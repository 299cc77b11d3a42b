// SPDX-License-Identifier: MIT
#pragma once
// C = A B^T in BF16 with F32 sums, as several experiments of this chapter compute it: tiles of 128 x 128
// outputs, 64 of K (128 bytes) a step, operands through swizzled shared memory, two warpgroups of 64 rows
// each.
#include <cuda_bf16.h>

#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "gpu/tensor_map.h"
#include "gpu/wgmma.cuh"
#include "lab/array_trial.h"

namespace cheetah::lab::bf16_product {
namespace {

constexpr int kTile = 128, kStep = 64, kOperandBytes = kTile * 128, kStageBytes = 2 * kOperandBytes;

struct Shape {
  int m = 0, n = 0, k = 0;  // multiples of 128, 128 and 64
};

// A [m, k], B [n, k], C [m, n].
struct Arrays {
  Array<__nv_bfloat16> a, b, c;
};

// 64 x 128 sums of a warpgroup to rows from `row` and columns from `column` of C.
__device__ inline void store_sums(const float (&sums)[64], __nv_bfloat16* c, int n, int row, int column) {
  const int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
  __nv_bfloat16* at = c + static_cast<int64_t>(row + warp * 16 + lane / 4) * n + column + lane % 4 * 2;
#pragma unroll
  for (int j = 0; j < kTile / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<__nv_bfloat162*>(at + static_cast<int64_t>(half) * 8 * n + j * 8) =
          __floats2bfloat162_rn(sums[j * 4 + half * 2], sums[j * 4 + half * 2 + 1]);
}

// One step of K for a warpgroup: 64 rows of A's tile from `a_row` with all of B's.
__device__ inline void multiply_step(
    float (&sums)[64], const unsigned char* stage, int a_row, int accumulate) {
  const uint32_t at = ptx::shared_address(stage);
  const uint64_t a = wgmma::descriptor(at + a_row * 128), b = wgmma::descriptor(at + kOperandBytes);
#pragma unroll
  for (int i = 0; i < kStep / 16; ++i)
    wgmma::Product<wgmma::Input::kBf16, kTile>::add(sums, a + i * 2, b + i * 2, accumulate | i);
}

// The oracle: F32 sums in order, one output a thread.
__global__ __launch_bounds__(1024) void exact(
    const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, Shape s) {
  __shared__ float tile_a[32][33], tile_b[32][33];
  const int64_t row = blockIdx.y * 32 + threadIdx.y, other = blockIdx.x * 32 + threadIdx.y;
  float sum = 0.f;
  for (int k = 0; k < s.k; k += 32) {
    tile_a[threadIdx.y][threadIdx.x] = __bfloat162float(a[row * s.k + k + threadIdx.x]);
    tile_b[threadIdx.y][threadIdx.x] = __bfloat162float(b[other * s.k + k + threadIdx.x]);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 32; ++i) sum = fmaf(tile_a[threadIdx.y][i], tile_b[threadIdx.x][i], sum);
    __syncthreads();
  }
  c[row * s.n + blockIdx.x * 32 + threadIdx.x] = __float2bfloat16_rn(sum);
}

// Rounding C costs 2^-9 relative; sums of other orders differ by far less than the absolute part.
constexpr Tolerance kTolerance{.relative = 1.0 / 128, .absolute = 0.02};

inline Arrays declare(ArrayTrial& trial, const Shape& s) {
  const Arrays arrays{trial.input<__nv_bfloat16>("a", int64_t{s.m} * s.k),
      trial.input<__nv_bfloat16>("b", int64_t{s.n} * s.k),
      trial.output<__nv_bfloat16>("c", int64_t{s.m} * s.n)};
  trial.set_cost({.flops = 2.0 * s.m * s.n * s.k,
      .bytes = 2.0 * (1.0 * s.m * s.k + 1.0 * s.n * s.k + 1.0 * s.m * s.n),
      .roof = Roof::kTensorBf16});
  trial.set_tolerance(kTolerance);
  trial.device_reference([=](const Launch& at) {
    gpu::launch({.kernel = "exact", .grid = {s.n / 32, s.m / 32}, .block = {32, 32}}, at.stream(), exact,
        at[arrays.a], at[arrays.b], at[arrays.c], s);
  });
  return arrays;
}

// Boxes of `box_rows` rows and 64 columns of a [rows, k] matrix.
inline gpu::TensorMap map_of(const __nv_bfloat16* data, int64_t rows, int64_t k, int box_rows) {
  return gpu::make_tensor_map(data, {.element = gpu::TensorElement::kBF16,
                                        .rank = 2,
                                        .dims = {k, rows},
                                        .strides = {k * 2},
                                        .box = {kStep, box_rows}});
}

}  // namespace
}  // namespace cheetah::lab::bf16_product
