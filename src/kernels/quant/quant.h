// SPDX-License-Identifier: MIT
#pragma once
// Between stored number formats and F32, one row at a time. These are the definition of each format.
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace cheetah {

// out[0..elements) = the row's values. elements is a whole number of blocks. Every DType except the integer
// ones.
void dequantize_row(DType dtype, const std::byte* row, float* out, int64_t elements);

// F32, F16, BF16, F8_E4M3 and every block type.
bool can_quantize_to(DType dtype);
// The nearest representation, or one whose weighted error is small (the types with 6-bit scales).
// importance [elements]: how much each number's squared error counts; used by the types with 6-bit scales.
void quantize_row(
    DType dtype, const float* values, std::byte* row, int64_t elements, const float* importance = nullptr);

}  // namespace cheetah
