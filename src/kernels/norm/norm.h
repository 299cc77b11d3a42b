// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "kernels/context.h"

namespace cheetah {

// RMSNorm: y = x / sqrt(mean(x^2) + eps) * (weight + weight_offset).  (Gemma stores weight - 1: offset 1.)
// LayerNorm: y = (x - mean) / sqrt(var + eps) * weight + bias.
// Each of `rows` rows holds `parts` neighbours (heads), part_stride apart, that are normalized each by itself.
struct NormArgs {
  const float* x = nullptr;  // [rows, parts, cols] f32, rows x_stride apart
  int64_t x_stride = 0;
  float* y = nullptr;  // may be x
  int64_t y_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t parts = 1;
  int64_t part_stride = 0;        // in x and in y
  const float* weight = nullptr;  // [cols], or none: ones
  const float* bias = nullptr;    // LayerNorm only; [cols] or none
  float eps = 1e-6f;
  float weight_offset = 0.f;
};
void rms_norm(const NormArgs& args, const CpuContext& context);
void layer_norm(const NormArgs& args, const CpuContext& context);
void rms_norm_reference(const NormArgs& args);
void layer_norm_reference(const NormArgs& args);
Cost norm_cost(const NormArgs& args);

}  // namespace cheetah
