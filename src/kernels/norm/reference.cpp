#include <cmath>

#include "kernels/norm/norm.h"

namespace cheetah {
namespace {

double scaled(const NormArgs& args, int64_t col, double normalized) {
  const double weight = args.weight ? static_cast<double>(args.weight[col]) + args.weight_offset : 1.0;
  return normalized * weight;
}

}  // namespace

void rms_norm_reference(const NormArgs& args) {
  for (int64_t row = 0; row < args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    float* y = args.y + row * args.y_stride;
    double squares = 0;
    for (int64_t col = 0; col < args.cols; ++col) squares += static_cast<double>(x[col]) * x[col];
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(args.cols) + args.eps);
    for (int64_t col = 0; col < args.cols; ++col)
      y[col] = static_cast<float>(scaled(args, col, x[col] * inverse));
  }
}

void layer_norm_reference(const NormArgs& args) {
  for (int64_t row = 0; row < args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    float* y = args.y + row * args.y_stride;
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
  const auto elements = static_cast<double>(args.rows) * static_cast<double>(args.cols);
  const double vectors = (args.weight ? 1.0 : 0.0) + (args.bias ? 1.0 : 0.0);
  return {.flops = 4 * elements, .bytes = 4 * (2 * elements + vectors * static_cast<double>(args.cols))};
}

}  // namespace cheetah
