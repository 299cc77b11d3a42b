// SPDX-License-Identifier: MIT
#pragma once
// The norms of norm.h on the device. T is float or Bf16; sums are float.
#include <cstdint>

#include "gpu/stream.h"
#include "tensor/bf16.h"

namespace cheetah::gpu {

// Each of `rows` rows holds `parts` neighbours (heads), part_stride apart, that are normalized each by
// itself.
template <class T>
struct NormArgs {
  const T* x = nullptr;
  int64_t x_stride = 0;
  T* y = nullptr;  // may be x
  int64_t y_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t parts = 1;
  int64_t part_stride = 0;        // in x and in y
  const float* weight = nullptr;  // [cols] on the device, or none: ones
  const float* bias = nullptr;    // LayerNorm only
  float eps = 1e-6f;
  float weight_offset = 0.f;
};
template <class T>
void rms_norm(const NormArgs<T>& args, Stream& stream);
template <class T>
void layer_norm(const NormArgs<T>& args, Stream& stream);

// A branch joins the residual stream, and what follows it is normalized: x += scale * branch (itself
// normalized first where post_norm is set); y = norm(x). Dense rows.
template <class T>
struct AddAndNormArgs {
  const T* branch = nullptr;  // [rows, cols]
  T* x = nullptr;             // [rows, cols]
  T* y = nullptr;             // [rows, cols], or none: only the sum is wanted
  int64_t rows = 0;
  int64_t cols = 0;
  bool centered = false;  // LayerNorm instead of RMSNorm, for both
  bool post_norm = false;
  const float* branch_weight = nullptr;
  const float* branch_bias = nullptr;
  float scale = 1.f;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float eps = 1e-6f;
  float weight_offset = 0.f;
};
template <class T>
void add_and_norm(const AddAndNormArgs<T>& args, Stream& stream);

}  // namespace cheetah::gpu
