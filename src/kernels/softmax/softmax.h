// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "kernels/context.h"

namespace cheetah {

// y = exp(x - max) / sum(exp(x - max)), row by row.
struct SoftmaxArgs {
  const float* x = nullptr;  // [rows, cols] f32, rows x_stride apart
  int64_t x_stride = 0;
  float* y = nullptr;  // may be x
  int64_t y_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
};
void softmax_reference(const SoftmaxArgs& args);

}  // namespace cheetah
