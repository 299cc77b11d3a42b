// SPDX-License-Identifier: MIT
#include "model/packed/int_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "kernels/quant/blocks.h"
#include "tensor/float16.h"

namespace cheetah {
namespace {

constexpr int64_t kBlock = 32;

float scale_at(const IntMatrix& matrix, int64_t row, int64_t group) {
  return matrix.scales[static_cast<size_t>(row * matrix.groups + group)];
}

void store_q4_0(const uint8_t* codes, float scale, std::byte* to) {
  BlockQ4_0 block{.d = f32_to_f16(scale), .q = {}};
  for (int i = 0; i < 16; ++i) block.q[i] = static_cast<uint8_t>(codes[i] | (codes[i + 16] << 4));
  std::memcpy(to, &block, sizeof block);
}

void store_q8_0(const uint8_t* codes, float scale, std::byte* to) {
  BlockQ8_0 block{.d = f32_to_f16(scale), .q = {}};
  for (int i = 0; i < 32; ++i) block.q[i] = static_cast<int8_t>(codes[i] - 128);
  std::memcpy(to, &block, sizeof block);
}

}  // namespace

void dequantize_row(const IntMatrix& matrix, int64_t row, float* to) {
  const uint8_t* codes = matrix.codes.data() + row * matrix.cols;
  for (int64_t col = 0; col < matrix.cols; ++col) {
    const auto at = static_cast<size_t>(row * matrix.groups + matrix.group(col));
    to[col] = matrix.scales[at] * static_cast<float>(codes[col] - matrix.zeros[at]);
  }
}

void check(const IntMatrix& matrix, const std::string& what) {
  const auto scales = static_cast<size_t>(matrix.rows * matrix.groups);
  const auto codes = static_cast<size_t>(matrix.rows * matrix.cols);
  if (matrix.rows < 1 || matrix.cols < 1 || matrix.groups < 1 || matrix.codes.size() != codes ||
      matrix.scales.size() != scales || matrix.zeros.size() != scales)
    throw Error(format("{}: its parts do not fit together", what));
  if (matrix.group_of.empty() && matrix.cols % matrix.groups != 0)
    throw Error(format("{}: {} inputs are no whole number of {} groups", what, matrix.cols, matrix.groups));
  for (const float scale : matrix.scales)
    if (!std::isfinite(scale))
      throw Error(format("{}: a scale is {}, expected a finite number: the file is damaged", what, scale));
  for (const int32_t group : matrix.group_of)
    if (group < 0 || group >= matrix.groups)
      throw Error(format("{}: an input is in group {} of {}", what, group, matrix.groups));
}

std::optional<DType> exact_block_type(const IntMatrix& matrix) {
  if (!matrix.group_of.empty() || matrix.group_size() % kBlock != 0) return std::nullopt;
  if (matrix.bits > 4 && matrix.bits != 8) return std::nullopt;
  for (const float scale : matrix.scales)
    if (f16_to_f32(f32_to_f16(scale)) != scale) return std::nullopt;
  const auto zero = static_cast<uint16_t>(matrix.symmetric_zero());
  if (std::ranges::any_of(matrix.zeros, [&](uint16_t other) { return other != zero; })) return std::nullopt;
  return matrix.bits == 8 ? DType::kQ8_0 : DType::kQ4_0;
}

void to_blocks(const IntMatrix& matrix, DType dtype, int64_t row, std::byte* to) {
  const uint8_t* codes = matrix.codes.data() + row * matrix.cols;
  const auto shift = static_cast<uint8_t>(8 - matrix.symmetric_zero());  // to Q4_0's zero of 8
  for (int64_t col = 0; col < matrix.cols; col += kBlock) {
    const float scale = scale_at(matrix, row, matrix.group(col));
    if (dtype == DType::kQ8_0) {
      store_q8_0(codes + col, scale, to + col / kBlock * static_cast<int64_t>(sizeof(BlockQ8_0)));
      continue;
    }
    uint8_t moved[kBlock];
    for (int64_t i = 0; i < kBlock; ++i) moved[i] = static_cast<uint8_t>(codes[col + i] + shift);
    store_q4_0(moved, scale, to + col / kBlock * static_cast<int64_t>(sizeof(BlockQ4_0)));
  }
}

}  // namespace cheetah
