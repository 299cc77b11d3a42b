// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/rope/rope_cuda.h"

namespace cheetah::gpu {

// Cosine and sine of pair i at a position, times the magnitude. The angle is rounded, as in training.
__device__ inline float2 rotation_of(const RopeAngles& angles, int64_t token, float position, int64_t i) {
  const bool is_long = angles.long_inv_freq && angles.uses_long && angles.uses_long[token] != 0;
  const float magnitude = is_long ? angles.long_magnitude : angles.magnitude;
  float sine, cosine;
  sincosf(__fmul_rn(position, is_long ? angles.long_inv_freq[i] : angles.inv_freq[i]), &sine, &cosine);
  return make_float2(cosine * magnitude, sine * magnitude);
}

// Rounded alike wherever it is compiled into.
__device__ inline float2 rotated(float first, float second, float2 rotation) {
  return make_float2(__fmaf_rn(first, rotation.x, -__fmul_rn(second, rotation.y)),
      __fmaf_rn(second, rotation.x, __fmul_rn(first, rotation.y)));
}

}  // namespace cheetah::gpu
