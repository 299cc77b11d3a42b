// SPDX-License-Identifier: MIT
#pragma once
// What the layouts share in writing and reading tensors.
#include <cstring>

#include "model/packed/int_matrix.h"

namespace cheetah {

inline bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

inline OwnedTensor zeroed(std::string name, DType dtype, const Shape& shape) {
  OwnedTensor tensor{.name = std::move(name), .dtype = dtype, .shape = shape, .data = {}};
  tensor.data.resize(static_cast<size_t>(shape.elements() * traits_of(dtype).block_bytes));
  return tensor;
}

template <class T>
void store(OwnedTensor& tensor, int64_t index, T value) {
  std::memcpy(tensor.data.data() + index * static_cast<int64_t>(sizeof value), &value, sizeof value);
}

}  // namespace cheetah
