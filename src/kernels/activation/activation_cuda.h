// SPDX-License-Identifier: MIT
#pragma once
// activation.h and the other element-by-element steps of a layer, on the device. T is float or Bf16.
#include <cstdint>

#include "gpu/stream.h"
#include "kernels/activation/activation.h"
#include "tensor/bf16.h"

namespace cheetah::gpu {

template <class T>
void activate(Activation kind, T* x, int64_t count, Stream& stream);

template <class T>
struct GatedArgs {
  Activation kind = Activation::kSilu;
  const T* gate = nullptr;
  int64_t gate_stride = 0;
  const T* up = nullptr;
  int64_t up_stride = 0;
  T* y = nullptr;  // may be gate
  int64_t y_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
};
template <class T>
void gated_activation(const GatedArgs<T>& args, Stream& stream);

template <class T>
struct ClampedSwigluArgs {
  GatedArgs<T> rows;
  float alpha = 1.702f;
  float limit = 7.f;
};
template <class T>
void clamped_swiglu(const ClampedSwigluArgs<T>& args, Stream& stream);

// x = x held between -limit and limit.
template <class T>
void clip(T* x, float limit, int64_t count, Stream& stream);

// y += scale * x
template <class T>
void add_scaled(const T* x, float scale, T* y, int64_t count, Stream& stream);

// Rows of numbers from one place to another. Row i of y is row source[i] / divisor of x, or row i without a
// source.
template <class X, class Y>
struct CopyRowsArgs {
  const X* x = nullptr;
  int64_t x_stride = 0;
  const int32_t* source = nullptr;  // [rows] on the device, or none
  int64_t divisor = 1;
  Y* y = nullptr;
  int64_t y_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
};
template <class X, class Y>
void copy_rows(const CopyRowsArgs<X, Y>& args, Stream& stream);

// logits = cap * tanh(scale * logits / cap), or without a cap only scaled.
void finish_logits(float* logits, int64_t count, float scale, float cap, Stream& stream);

}  // namespace cheetah::gpu
