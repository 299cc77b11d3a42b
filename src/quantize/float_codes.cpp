// SPDX-License-Identifier: MIT
#include "quantize/float_codes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/quant/blocks.h"
#include "kernels/quant/quant.h"
#include "model/packed/pack_tools.h"

namespace cheetah {
namespace {

constexpr float kMostFp8 = 448.f;
constexpr float kMostFp4 = 6.f;

float largest_of(const float* x, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::fabs(x[i]));
  return largest;
}

float scale_for(float largest, float most) { return largest > 0 ? largest / most : 1.f; }

void put_fp8(const float* x, int64_t count, float scale, std::byte* to) {
  std::vector<float> scaled(static_cast<size_t>(count));
  std::ranges::transform(x, x + count, scaled.begin(), [&](float value) { return value / scale; });
  quantize_row(DType::kF8E4M3, scaled.data(), to, count);
}

float from_e4m3(std::byte code) {
  float value = 0;
  dequantize_row(DType::kF8E4M3, &code, &value, 1);
  return value;
}

uint8_t to_fp4(float value) {
  constexpr std::array kBetween = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5.f};
  uint8_t code = 0;
  for (const float bound : kBetween) code = static_cast<uint8_t>(code + (std::fabs(value) > bound));
  return static_cast<uint8_t>(code | (std::signbit(value) && code ? 8 : 0));
}

void put_pair(std::byte* row, int64_t col, unsigned code) {
  row[col / 2] |= static_cast<std::byte>(code << (col % 2 * 4));
}

}  // namespace

std::vector<OwnedTensor> pack_fp8(
    const MatrixRows& w, const std::string& name, bool per_tensor, ThreadPool& pool) {
  OwnedTensor weight = zeroed(name + ".weight", DType::kF8E4M3, {w.rows, w.cols});
  OwnedTensor scales = zeroed(name + ".weight_scale", DType::kF32, per_tensor ? Shape{1} : Shape{w.rows, 1});
  const float whole = per_tensor ? scale_for(largest_of(w.data, w.rows * w.cols), kMostFp8) : 0.f;
  if (per_tensor) store(scales, 0, whole);
  pool.parallel_for(w.rows, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const float* row = w.data + r * w.cols;
      const float scale = per_tensor ? whole : scale_for(largest_of(row, w.cols), kMostFp8);
      if (!per_tensor) store(scales, r, scale);
      put_fp8(row, w.cols, scale, weight.data.data() + r * w.cols);
    }
  });
  return {std::move(weight), std::move(scales)};
}

std::vector<OwnedTensor> pack_fp8_blocks(const MatrixRows& w, const std::string& name, ThreadPool& pool) {
  const int64_t high = (w.rows + kFp8Block - 1) / kFp8Block, wide = (w.cols + kFp8Block - 1) / kFp8Block;
  OwnedTensor weight = zeroed(name + ".weight", DType::kF8E4M3, {w.rows, w.cols});
  OwnedTensor scales = zeroed(name + ".weight_scale_inv", DType::kF32, {high, wide});
  pool.parallel_for(high * wide, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t row = block / wide * kFp8Block, col = block % wide * kFp8Block;
      const int64_t rows = std::min(kFp8Block, w.rows - row), cols = std::min(kFp8Block, w.cols - col);
      float largest = 0;
      for (int64_t r = row; r < row + rows; ++r)
        largest = std::max(largest, largest_of(w.data + r * w.cols + col, cols));
      const float scale = scale_for(largest, kMostFp8);
      store(scales, block, scale);
      for (int64_t r = row; r < row + rows; ++r)
        put_fp8(w.data + r * w.cols + col, cols, scale, weight.data.data() + r * w.cols + col);
    }
  });
  return {std::move(weight), std::move(scales)};
}

std::vector<OwnedTensor> pack_mxfp4(const MatrixRows& w, const std::string& name, ThreadPool& pool) {
  constexpr int64_t kGroup = 32;
  OwnedTensor packed = zeroed(name + ".weight_packed", DType::kU8, {w.rows, w.cols / 2});
  OwnedTensor scales = zeroed(name + ".weight_scale", DType::kU8, {w.rows, w.cols / kGroup});
  pool.parallel_for(w.rows, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t g = 0; g < w.cols / kGroup; ++g) {
        BlockMXFP4 block;
        quantize_row(
            DType::kMXFP4, w.data + r * w.cols + g * kGroup, reinterpret_cast<std::byte*>(&block), kGroup);
        store(scales, r * (w.cols / kGroup) + g, block.e);
        std::byte* row = packed.data.data() + r * (w.cols / 2);
        for (int64_t i = 0; i < 16; ++i) {
          put_pair(row, g * kGroup + i, block.q[i] & 15u);
          put_pair(row, g * kGroup + 16 + i, block.q[i] >> 4);
        }
      }
  });
  return {std::move(packed), std::move(scales)};
}

std::vector<OwnedTensor> pack_nvfp4(const MatrixRows& w, const std::string& name, ThreadPool& pool) {
  constexpr int64_t kGroup = 16;
  OwnedTensor packed = zeroed(name + ".weight_packed", DType::kU8, {w.rows, w.cols / 2});
  OwnedTensor scales = zeroed(name + ".weight_scale", DType::kF8E4M3, {w.rows, w.cols / kGroup});
  OwnedTensor global = zeroed(name + ".weight_global_scale", DType::kF32, {1});
  const float largest = largest_of(w.data, w.rows * w.cols);
  const float divisor = largest > 0 ? kMostFp8 * kMostFp4 / largest : 1.f;
  store(global, 0, divisor);
  pool.parallel_for(w.rows, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t g = 0; g < w.cols / kGroup; ++g) {
        const float* x = w.data + r * w.cols + g * kGroup;
        const float wanted = largest_of(x, kGroup) / kMostFp4 * divisor;
        std::byte code{};
        quantize_row(DType::kF8E4M3, &wanted, &code, 1);
        store(scales, r * (w.cols / kGroup) + g, code);
        const float scale = from_e4m3(code) / divisor;
        for (int64_t i = 0; i < kGroup; ++i)
          put_pair(
              packed.data.data() + r * (w.cols / 2), g * kGroup + i, scale > 0 ? to_fp4(x[i] / scale) : 0u);
      }
  });
  return {std::move(packed), std::move(scales), std::move(global)};
}

}  // namespace cheetah
