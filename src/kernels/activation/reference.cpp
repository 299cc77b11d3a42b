// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/activation/activation.h"

namespace cheetah {
namespace {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double activation(Activation kind, double x) {
  constexpr double kSqrt2OverPi = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  switch (kind) {
    case Activation::kSilu:
      return x * sigmoid(x);
    case Activation::kGeluTanh:
      return 0.5 * x * (1.0 + std::tanh(kSqrt2OverPi * (x + 0.044715 * x * x * x)));
    case Activation::kGeluErf:
      return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
    case Activation::kQuickGelu:
      return x * sigmoid(1.702 * x);
    case Activation::kRelu:
      break;
  }
  return x < 0 ? 0.0 : x;
}

}  // namespace

float activation_reference(Activation kind, float x) { return static_cast<float>(activation(kind, x)); }

void gated_activation_reference(const GatedArgs& args) {
  for (int64_t row = 0; row < args.rows; ++row)
    for (int64_t col = 0; col < args.cols; ++col) {
      const double gate = args.gate[row * args.gate_stride + col], up = args.up[row * args.up_stride + col];
      args.y[row * args.y_stride + col] = static_cast<float>(activation(args.kind, gate) * up);
    }
}

void clamped_swiglu_reference(const ClampedSwigluArgs& args) {
  const GatedArgs& rows = args.rows;
  const double limit = args.limit, alpha = args.alpha;
  for (int64_t row = 0; row < rows.rows; ++row)
    for (int64_t col = 0; col < rows.cols; ++col) {
      const double gate = std::min<double>(rows.gate[row * rows.gate_stride + col], limit);
      const double up = std::clamp<double>(rows.up[row * rows.up_stride + col], -limit, limit);
      rows.y[row * rows.y_stride + col] = static_cast<float>((up + 1.0) * gate * sigmoid(alpha * gate));
    }
}

}  // namespace cheetah
