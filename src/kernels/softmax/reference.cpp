// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>

#include "kernels/softmax/softmax.h"

namespace cheetah {

void softmax_reference(const SoftmaxArgs& args) {
  for (int64_t row = 0; row < args.rows; ++row) {
    const float* x = args.x + row * args.x_stride;
    float* y = args.y + row * args.y_stride;
    if (args.cols == 0) continue;
    const double peak = *std::max_element(x, x + args.cols);
    double sum = 0;
    for (int64_t i = 0; i < args.cols; ++i) sum += std::exp(x[i] - peak);
    for (int64_t i = 0; i < args.cols; ++i) y[i] = static_cast<float>(std::exp(x[i] - peak) / sum);
  }
}

}  // namespace cheetah
