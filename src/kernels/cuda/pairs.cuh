// SPDX-License-Identifier: MIT
#pragma once
// Two 16-bit numbers in a register, as the tensor cores take and give them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/wgmma.cuh"

namespace cheetah::gpu {

template <wgmma::Input kInput>
__device__ inline uint32_t pack_pair(float low, float high) {
  if constexpr (kInput == wgmma::Input::kF16) {
    const __half2 v = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&v);
  } else {
    const __nv_bfloat162 v = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&v);
  }
}

template <wgmma::Input kInput>
__device__ inline float2 unpack_pair(uint32_t bits) {
  if constexpr (kInput == wgmma::Input::kF16)
    return __half22float2(*reinterpret_cast<const __half2*>(&bits));
  else
    return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&bits));
}

// Four E4M3 numbers as two pairs of F16.
__device__ inline void widen_fp8(uint32_t four, uint32_t& low, uint32_t& high) {
  asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, l;\ncvt.rn.f16x2.e4m3x2 %1, h;\n}"
      : "=r"(low), "=r"(high)
      : "r"(four));
}

}  // namespace cheetah::gpu
