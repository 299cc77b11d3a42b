// SPDX-License-Identifier: MIT
#pragma once
// y = x W^T (+ bias): the product of every linear layer. W's rows are outputs, stored in any weight DType.
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/context.h"
#include "tensor/dtype.h"

namespace cheetah {

// What stored numbers are to be multiplied with: one number for every rows x cols of them.
struct WeightScales {
  const float* data = nullptr;  // [a matrix's rows / rows, its cols / cols] rounded up; none: as stored
  int64_t rows = 1;
  int64_t cols = 0;
};

struct WeightMatrix {
  DType dtype = DType::kF32;
  int64_t rows = 0;                 // outputs
  int64_t cols = 0;                 // inputs, a whole number of the type's blocks
  const std::byte* data = nullptr;  // [rows, cols], dense
  WeightScales scales = {};         // of F8_E4M3

  int64_t scales_across() const { return (cols + scales.cols - 1) / scales.cols; }
  int64_t num_scales() const {
    return scales.data ? (rows + scales.rows - 1) / scales.rows * scales_across() : 0;
  }
  const float* scales_of_row(int64_t row) const { return scales.data + row / scales.rows * scales_across(); }
  bool has_row_scales() const { return scales.data && scales.rows == 1 && scales.cols >= cols; }
};

// Rows [first, first + rows) of a matrix. Throws Error where scales do not begin there.
WeightMatrix rows_of(const WeightMatrix& whole, int64_t first, int64_t rows);
// A row as it counts: widened and scaled.
void widen_weights(const WeightMatrix& w, int64_t row, float* to);

struct GemmArgs {
  const float* x = nullptr;  // [m, w.cols] f32
  int64_t x_stride = 0;      // elements between rows of x, at least w.cols
  int64_t m = 0;
  WeightMatrix w;
  const float* bias = nullptr;  // [w.rows] f32, or none
  float* y = nullptr;           // [m, w.rows] f32
  int64_t y_stride = 0;
};

// How far an output may be from the exact sum over k, with u = 2^-24:
//   kExact, and every type at kNative but those below: (k + 16) u sum |x w|. W is widened exactly.
//   kNative with Q8_0, Q4_0 or Q4_K on a machine with integer dot products: x is rounded to 8 bits in blocks
//   of 32, which adds at most sum |w| max|x of its block| / 254. Elsewhere as kExact.
//   kNative with BF16 on a machine with BF16 dot products: x is rounded to BF16, which adds at most
//   2^-8 sum |x w|; subnormal numbers count as zero. Elsewhere as kExact.
//
// Each output depends only on its own row of x and of W, added in an order that does not change with m, with
// the number of threads or with the row's place: the same token gives the same bits at every batch size.
void gemm(const GemmArgs& args, const CpuContext& context);

// One weight matrix per expert; rows [offsets[e], offsets[e+1]) of x go through experts[e]. bias: per expert
// or empty.
struct GroupedGemmArgs {
  const float* x = nullptr;  // [offsets.back(), cols] f32
  int64_t x_stride = 0;
  std::span<const WeightMatrix> experts;
  std::span<const int64_t> offsets;      // experts.size() + 1, ascending from 0
  std::span<const float* const> biases;  // empty, or one per expert
  float* y = nullptr;                    // [offsets.back(), rows] f32
  int64_t y_stride = 0;
};
void grouped_gemm(const GroupedGemmArgs& args, const CpuContext& context);

Cost gemm_cost(const GemmArgs& args);

// Plain loops, sums in double: the definition of right.
void gemm_reference(const GemmArgs& args);

}  // namespace cheetah
