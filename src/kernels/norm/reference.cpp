// SPDX-License-Identifier: MIT
#include <cmath>

#include "kernels/norm/norm.h"

namespace cheetah {
namespace {

// Where a part begins, of all parts of all rows.
int64_t part_at(const NormArgs& args, int64_t stride, int64_t part) {
  return part / args.parts * stride + part % args.parts * args.part_stride;
}

double scaled(const NormArgs& args, int64_t col, double normalized) {
  const double weight = args.weight ? static_cast<double>(args.weight[col]) + args.weight_offset : 1.0;
  return normalized * weight;
}

}  // namespace

void rms_norm_reference(const NormArgs& args) {
  for (int64_t row = 0; row < args.rows * args.parts; ++row) {
    const float* x = args.x + part_at(args, args.x_stride, row);
    float* y = args.y + part_at(args, args.y_stride, row);
    double squares = 0;
    for (int64_t col = 0; col < args.cols; ++col) squares += static_cast<double>(x[col]) * x[col];
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(args.cols) + args.eps);
    for (int64_t col = 0; col < args.cols; ++col)
      y[col] = static_cast<float>(scaled(args, col, x[col] * inverse));
  }
}

void layer_norm_reference(const NormArgs& args) {
  for (int64_t row = 0; row < args.rows * args.parts; ++row) {
    const float* x = args.x + part_at(args, args.x_stride, row);
    float* y = args.y + part_at(args, args.y_stride, row);
    const auto cols = static_cast<double>(args.cols);
    double sum = 0;
    for (int64_t col = 0; col < args.cols; ++col) sum += x[col];
    const double mean = sum / cols;
    double squares = 0;
    for (int64_t col = 0; col < args.cols; ++col) squares += (x[col] - mean) * (x[col] - mean);
    const double inverse = 1.0 / std::sqrt(squares / cols + args.eps);
    for (int64_t col = 0; col < args.cols; ++col) {
      const double bias = args.bias ? args.bias[col] : 0.0;
      y[col] = static_cast<float>(scaled(args, col, (x[col] - mean) * inverse) + bias);
    }
  }
}

Cost norm_cost(const NormArgs& args) {
  const auto elements = static_cast<double>(args.rows * args.parts) * static_cast<double>(args.cols);
  const double vectors = (args.weight ? 1.0 : 0.0) + (args.bias ? 1.0 : 0.0);
  return {.flops = 4 * elements, .bytes = 4 * (2 * elements + vectors * static_cast<double>(args.cols))};
}

}  // namespace cheetah
