#include "kernels/activation/activation.h"

namespace cheetah {

void activate(Activation kind, float* x, int64_t count, const CpuContext&) {
  for (int64_t i = 0; i < count; ++i) x[i] = activation_reference(kind, x[i]);
}

void gated_activation(const GatedArgs& args, const CpuContext&) { gated_activation_reference(args); }

void clamped_swiglu(const ClampedSwigluArgs& args, const CpuContext&) { clamped_swiglu_reference(args); }

void add_scaled(const float* x, float scale, float* y, int64_t count, const CpuContext&) {
  for (int64_t i = 0; i < count; ++i) y[i] += scale * x[i];
}

}  // namespace cheetah
