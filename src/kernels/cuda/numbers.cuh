// SPDX-License-Identifier: MIT
#pragma once
// Activations are float or Bf16; arithmetic is always float.
#include <cuda_bf16.h>

#include "tensor/bf16.h"

namespace cheetah::gpu {

__device__ inline float widen(float value) { return value; }
__device__ inline float widen(Bf16 value) { return __uint_as_float(static_cast<uint32_t>(value.bits) << 16); }

template <class T>
__device__ inline T narrow(float value);
template <>
__device__ inline float narrow<float>(float value) {
  return value;
}
template <>
__device__ inline Bf16 narrow<Bf16>(float value) {
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
}

}  // namespace cheetah::gpu
