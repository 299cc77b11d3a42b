// SPDX-License-Identifier: MIT
#pragma once
// Random products for the test and the bench.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "kernels/gemm/gemm.h"
#include "kernels/quant/blocks.h"
#include "kernels/quant/quant.h"
#include "tensor/float16.h"
#include "tensor/tensor.h"

namespace cheetah {

struct GemmCase {
  Buffer weights;
  std::vector<float> x, bias, y;
  GemmArgs args;
};

// Scales of about 1/8 in place of random bits; the levels stay random.
inline void tame_block(DType dtype, std::byte* block) {
  const auto set_f16 = [&](int64_t at, float value) {
    const uint16_t half = f32_to_f16(value);
    std::memcpy(block + at, &half, sizeof half);
  };
  switch (dtype) {
    case DType::kQ6_K:
      return set_f16(208, 0.001f);
    case DType::kQ4_1:
    case DType::kQ5_1:
    case DType::kQ5_K:
      set_f16(2, 0.125f);
      [[fallthrough]];
    case DType::kQ5_0:
      return set_f16(0, 0.0625f);
    case DType::kMXFP4:
      block[0] = std::byte{124};
      return;
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      block[0] &= std::byte{0xBF};
      return;  // under 2: no NaN, no infinity
    default:
      return;
  }
}

inline void fill_row(DType dtype, Philox& random, std::byte* row, int64_t elements) {
  if (can_quantize_to(dtype)) {
    std::vector<float> values(static_cast<size_t>(elements));
    for (float& value : values) value = random.next_normal();
    return quantize_row(dtype, values.data(), row, elements);
  }
  const DTypeTraits& traits = traits_of(dtype);
  for (int64_t block = 0; block < elements / traits.block_elements; ++block, row += traits.block_bytes) {
    for (int64_t i = 0; i < traits.block_bytes; ++i) row[i] = static_cast<std::byte>(random.next_u32());
    tame_block(dtype, row);
    if (const double value = random.next_normal(); dtype == DType::kF64)
      std::memcpy(row, &value, sizeof value);
  }
}

// Rows of x and y lie a little apart; y starts as NaN.
inline GemmCase make_gemm_case(DType dtype, int64_t m, int64_t rows, int64_t cols, uint64_t seed) {
  Philox random(seed);
  GemmCase c;
  const int64_t bytes = row_bytes(dtype, cols), distinct = std::min<int64_t>(rows, 97);
  c.weights = Buffer(rows * bytes);
  for (int64_t row = 0; row < rows; ++row) {
    if (row < distinct)
      fill_row(dtype, random, c.weights.data() + row * bytes, cols);
    else
      std::memcpy(c.weights.data() + row * bytes, c.weights.data() + row % distinct * bytes,
          static_cast<size_t>(bytes));
  }
  const int64_t x_stride = cols + 3, y_stride = rows + 5;
  c.x.resize(static_cast<size_t>(m * x_stride));
  for (float& value : c.x) value = random.next_normal();
  c.bias.resize(static_cast<size_t>(rows));
  for (float& value : c.bias) value = random.next_normal();
  c.y.assign(static_cast<size_t>(m * y_stride), std::nanf(""));
  c.args = {.x = c.x.data(),
      .x_stride = x_stride,
      .m = m,
      .w = {.dtype = dtype, .rows = rows, .cols = cols, .data = c.weights.data()},
      .bias = c.bias.data(),
      .y = c.y.data(),
      .y_stride = y_stride};
  return c;
}

// Scales between a half and three halves for every `high` rows and `wide` columns.
inline std::vector<float> add_scales(WeightMatrix& w, int64_t high, int64_t wide, uint64_t seed) {
  Philox random(seed);
  w.scales = {.data = nullptr, .rows = high, .cols = wide};
  std::vector<float> scales(static_cast<size_t>((w.rows + high - 1) / high * w.scales_across()));
  for (float& scale : scales) scale = 0.5f + static_cast<float>(random.next_uniform());
  w.scales.data = scales.data();
  return scales;
}

// How far each element of x may be rounded, for native products of quantized and BF16 weights; else 0.
inline std::vector<float> half_steps(const GemmArgs& args, Precision precision) {
  const int64_t cols = args.w.cols;
  std::vector<float> steps(static_cast<size_t>(args.m * cols));
  if (precision != Precision::kNative) return steps;
  if (args.w.dtype == DType::kBF16)
    for (int64_t i = 0; i < args.m * cols; ++i)
      steps[static_cast<size_t>(i)] = std::fabs(args.x[i / cols * args.x_stride + i % cols]) * 0x1p-8f;
  if (!is_quantized(args.w.dtype)) return steps;
  for (int64_t i = 0; i < args.m; ++i)
    for (int64_t begin = 0; begin < cols; begin += 32) {
      const int64_t end = std::min(cols, begin + 32);
      float largest = 0;
      for (int64_t k = begin; k < end; ++k)
        largest = std::max(largest, std::fabs(args.x[i * args.x_stride + k]));
      for (int64_t k = begin; k < end; ++k)
        steps[static_cast<size_t>(i * cols + k)] = largest * (0.5001f / 127);
    }
  return steps;
}

// The most each output may differ from the exact sum: gamma(k) on the magnitudes, and the rounding of x.
inline std::vector<double> gemm_error_bounds(const GemmArgs& args, Precision precision) {
  const WeightMatrix& w = args.w;
  const std::vector<float> steps = half_steps(args, precision);
  std::vector<float> row(static_cast<size_t>(w.cols));
  std::vector<double> bounds(static_cast<size_t>(args.m * w.rows));
  for (int64_t r = 0; r < w.rows; ++r) {
    widen_weights(w, r, row.data());
    for (int64_t i = 0; i < args.m; ++i) {
      double sum = args.bias ? std::fabs(args.bias[r]) : 0, rounding = 0;
      for (int64_t k = 0; k < w.cols; ++k) {
        const double weight = std::fabs(row[static_cast<size_t>(k)]);
        sum += std::fabs(args.x[i * args.x_stride + k]) * weight;
        rounding += steps[static_cast<size_t>(i * w.cols + k)] * weight;
      }
      bounds[static_cast<size_t>(i * w.rows + r)] =
          rounding + sum * static_cast<double>(w.cols + 16) * 0x1p-24;
    }
  }
  return bounds;
}

}  // namespace cheetah
