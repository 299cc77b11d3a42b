#pragma once
#include "kernels/rope/rope_cuda.h"

namespace cheetah::gpu {

// Cosine and sine of pair i at a position, times the magnitude. The angle is rounded, as in training.
__device__ inline float2 turn_of(const RopeTurns& turns, int64_t token, float position, int64_t i) {
  const bool is_long = turns.long_inv_freq && turns.uses_long && turns.uses_long[token] != 0;
  const float magnitude = is_long ? turns.long_magnitude : turns.magnitude;
  float sine, cosine;
  sincosf(__fmul_rn(position, is_long ? turns.long_inv_freq[i] : turns.inv_freq[i]), &sine, &cosine);
  return make_float2(cosine * magnitude, sine * magnitude);
}

// Rounded alike wherever it is compiled into.
__device__ inline float2 turned(float first, float second, float2 turn) {
  return make_float2(__fmaf_rn(first, turn.x, -__fmul_rn(second, turn.y)),
                     __fmaf_rn(second, turn.x, __fmul_rn(first, turn.y)));
}

}  // namespace cheetah::gpu
