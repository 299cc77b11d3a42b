// SPDX-License-Identifier: MIT
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "kernels/gemm/gemm.h"
#include "kernels/quant/quant.h"

namespace cheetah {

WeightMatrix rows_of(const WeightMatrix& whole, int64_t first, int64_t rows) {
  if (!whole.data) return {};
  WeightMatrix part = whole;
  part.rows = rows;
  part.data += first * row_bytes(whole.dtype, whole.cols);
  if (!whole.scales.data) return part;
  if (first % whole.scales.rows != 0)
    throw Error(format("a part of a matrix begins at row {}, expected a multiple of its scales' {} rows",
        first, whole.scales.rows));
  part.scales.data = whole.scales_of_row(first);
  return part;
}

void widen_weights(const WeightMatrix& w, int64_t row, float* to) {
  dequantize_row(w.dtype, w.data + row * row_bytes(w.dtype, w.cols), to, w.cols);
  if (!w.scales.data) return;
  const float* scales = w.scales_of_row(row);
  for (int64_t k = 0; k < w.cols; ++k) to[k] *= scales[k / w.scales.cols];
}

Cost gemm_cost(const GemmArgs& args) {
  const auto m = static_cast<double>(args.m), rows = static_cast<double>(args.w.rows),
             cols = static_cast<double>(args.w.cols);
  const auto weight_bytes =
      static_cast<double>(args.w.rows * row_bytes(args.w.dtype, args.w.cols) + 4 * args.w.num_scales());
  const double bias_bytes = args.bias ? 4 * rows : 0;
  return {.flops = 2 * m * rows * cols, .bytes = weight_bytes + bias_bytes + 4 * m * (rows + cols)};
}

void gemm_reference(const GemmArgs& args) {
  const WeightMatrix& w = args.w;
  std::vector<float> weights(static_cast<size_t>(w.cols));
  for (int64_t row = 0; row < w.rows; ++row) {
    widen_weights(w, row, weights.data());
    for (int64_t i = 0; i < args.m; ++i) {
      double sum = args.bias ? args.bias[row] : 0;
      for (int64_t k = 0; k < w.cols; ++k)
        sum += static_cast<double>(args.x[i * args.x_stride + k]) * weights[static_cast<size_t>(k)];
      args.y[i * args.y_stride + row] = static_cast<float>(sum);
    }
  }
}

}  // namespace cheetah
