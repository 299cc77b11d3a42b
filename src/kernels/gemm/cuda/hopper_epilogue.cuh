#pragma once
// The last arithmetic of a product, and 16-bit numbers in and out of registers.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gpu/tensor_map.h"
#include "gpu/wgmma.cuh"
#include "tensor/dtype.h"

namespace cheetah::gpu::hopper {

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

__device__ inline float gated_silu(float gate, float up) { return gate / (1.f + __expf(-gate)) * up; }

inline TensorElement tensor_element(DType dtype) {
  return dtype == DType::kF16 ? TensorElement::kF16 : TensorElement::kBF16;
}

// A matrix of 16-bit numbers in boxes of 64 columns.
inline TensorMap matrix_map(const void* data, DType dtype, int64_t rows, int64_t columns, int64_t stride,
                            int box_rows) {
  return make_tensor_map(data, {.element = tensor_element(dtype),
                                .rank = 2,
                                .dims = {columns, rows},
                                .strides = {stride * 2},
                                .box = {64, box_rows}});
}

}  // namespace cheetah::gpu::hopper
