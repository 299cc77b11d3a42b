// SPDX-License-Identifier: MIT
#pragma once
// The last arithmetic of a product, and how its operands are described.
#include "gpu/tensor_map.h"
#include "tensor/dtype.h"

namespace cheetah::gpu::hopper {

__device__ inline float gated_silu(float gate, float up) { return gate / (1.f + __expf(-gate)) * up; }

inline TensorElement tensor_element(DType dtype) {
  return dtype == DType::kF8E4M3 ? TensorElement::kU8
         : dtype == DType::kF16  ? TensorElement::kF16
                                 : TensorElement::kBF16;
}

// A matrix of 16-bit numbers in boxes of 64 columns, or of FP8 in boxes of 128.
inline TensorMap matrix_map(
    const void* data, DType dtype, int64_t rows, int64_t columns, int64_t stride, int box_rows) {
  const int size = dtype == DType::kF8E4M3 ? 1 : 2;
  return make_tensor_map(data, {.element = tensor_element(dtype),
                                   .rank = 2,
                                   .dims = {columns, rows},
                                   .strides = {stride * size},
                                   .box = {128 / size, box_rows}});
}

}  // namespace cheetah::gpu::hopper
