// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "kernels/context.h"

namespace cheetah {

// kGeluTanh is the tanh approximation (gelu_new, gelu_pytorch_tanh); kGeluErf the exact one; kQuickGelu
// x*sigmoid(1.702x).
enum class Activation { kSilu, kGeluTanh, kGeluErf, kQuickGelu, kRelu };

// x = act(x), element by element.
void activate(Activation kind, float* x, int64_t count, const CpuContext& context);

// y = act(gate) * up for rows of `cols`. y may be gate.
struct GatedArgs {
  Activation kind = Activation::kSilu;
  const float* gate = nullptr;
  int64_t gate_stride = 0;
  const float* up = nullptr;
  int64_t up_stride = 0;
  float* y = nullptr;
  int64_t y_stride = 0;
  int64_t rows = 0;
  int64_t cols = 0;
};
void gated_activation(const GatedArgs& args, const CpuContext& context);

// gpt_oss: gate' = min(gate, limit), up' = clamp(up, -limit, limit); y = (up' + 1) * gate' * sigmoid(alpha *
// gate').
struct ClampedSwigluArgs {
  GatedArgs rows;
  float alpha = 1.702f;
  float limit = 7.f;
};
void clamped_swiglu(const ClampedSwigluArgs& args, const CpuContext& context);

float activation_reference(Activation kind, float x);
void gated_activation_reference(const GatedArgs& args);
void clamped_swiglu_reference(const ClampedSwigluArgs& args);

// x = x held between -limit and limit.
void clip(float* x, float limit, int64_t count, const CpuContext& context);

// y += scale * x
void add_scaled(const float* x, float scale, float* y, int64_t count, const CpuContext& context);

}  // namespace cheetah
