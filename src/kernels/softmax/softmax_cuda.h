// SPDX-License-Identifier: MIT
#pragma once
// The softmax of softmax.h on the device. T is float or Bf16; sums are float.
#include <cstdint>

#include "gpu/stream.h"
#include "tensor/bf16.h"

namespace cheetah::gpu {

template <class T>
struct SoftmaxArgs {
  const T* x = nullptr;  // [rows, cols]
  int64_t x_stride = 0;
  T* y = nullptr;  // may be x
  int64_t y_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
};
template <class T>
void softmax(const SoftmaxArgs<T>& args, Stream& stream);

}  // namespace cheetah::gpu
