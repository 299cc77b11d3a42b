// SPDX-License-Identifier: MIT
#pragma once
// Plain loops over each format: the definition dequantize_row is held to.
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace cheetah {

void dequantize_row_reference(DType dtype, const std::byte* row, float* out, int64_t elements);

}  // namespace cheetah
