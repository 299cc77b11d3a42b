// SPDX-License-Identifier: MIT
// Weights in FP8: the scales that checkpoints store beside them, and what becomes of both.
#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "kernels/quant/quant.h"
#include "model/weight_loader.h"
#include "tensor/float16.h"

namespace cheetah {

// "weight_scale_inv" of fp8 checkpoints and "weight_scale" of compressed-tensors: both are multiplied with.
// One number for the whole tensor, one per row, or one per block. A scale of the whole tensor is kept once per row,
// so that matrices can lie side by side.
WeightScales WeightLoader::take_scales(const std::string& name, const TensorView& view) {
  if (view.dtype != DType::kF8E4M3) return {};
  const std::string scale_name = name + (has(name + "_scale_inv") ? "_scale_inv" : "_scale");
  const auto at = source_.tensors.find(scale_name);
  if (at == source_.tensors.end()) return {};
  const int64_t rows = view.rows(), cols = view.cols();
  const Shape& shape = at->second.shape;
  if (shape.elements() == 1) {
    const float* scale = vector(scale_name, shape);
    auto* all = reinterpret_cast<float*>(own(rows * static_cast<int64_t>(sizeof(float))));
    std::fill_n(all, rows, *scale);
    return {.data = all, .rows = 1, .cols = cols};
  }
  if (shape == Shape{rows} || shape == Shape{rows, 1})
    return {.data = vector(scale_name, shape), .rows = 1, .cols = cols};
  const int64_t high = source_.fp8_rows, wide = source_.fp8_cols;
  const float* blocks = vector(scale_name, {(rows + high - 1) / high, (cols + wide - 1) / wide});
  return {.data = blocks, .rows = high, .cols = wide};
}

TensorView WeightLoader::decoded(const std::string& name, const TensorView& view) {
  return decoded(view, take_scales(name, view));
}

// As BF16: the product has at most 4 + 24 significant bits, rounded once.
TensorView WeightLoader::decoded(const TensorView& view, const WeightScales& scales) {
  if (!scales.data) return view;
  const WeightMatrix w{
      .dtype = view.dtype, .rows = view.rows(), .cols = view.cols(), .data = view.data, .scales = scales};
  std::byte* data = own(w.rows * w.cols * 2);
  pool_.parallel_for(w.rows, 16, [&](int64_t begin, int64_t end, int) {
    std::vector<float> row(static_cast<size_t>(w.cols));
    for (int64_t r = begin; r < end; ++r) {
      widen_weights(w, r, row.data());
      std::ranges::transform(row, reinterpret_cast<uint16_t*>(data) + r * w.cols, f32_to_bf16);
    }
  });
  return {.dtype = DType::kBF16, .shape = view.shape, .data = data};
}

// Numbers of another type in FP8, the largest of each row as its largest number.
WeightMatrix WeightLoader::narrowed(const TensorView& view) {
  constexpr float kLargest = 448.f;
  const int64_t rows = view.rows(), cols = view.cols();
  std::byte* data = own(rows * cols);
  auto* scales = reinterpret_cast<float*>(own(rows * static_cast<int64_t>(sizeof(float))));
  pool_.parallel_for(rows, 16, [&](int64_t begin, int64_t end, int) {
    std::vector<float> row(static_cast<size_t>(cols));
    for (int64_t r = begin; r < end; ++r) {
      dequantize_row(view.dtype, view.row(r), row.data(), cols);
      float largest = 0.f;
      for (const float number : row) largest = std::max(largest, std::fabs(number));
      scales[r] = largest > 0.f ? largest / kLargest : 1.f;
      for (float& number : row) number /= scales[r];
      quantize_row(DType::kF8E4M3, row.data(), data + r * cols, cols);
    }
  });
  return {.dtype = DType::kF8E4M3,
      .rows = rows,
      .cols = cols,
      .data = data,
      .scales = {.data = scales, .rows = 1, .cols = cols}};
}

}  // namespace cheetah
