#pragma once
// Between stored number formats and F32, one row at a time. These are the definition of each format.
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace cheetah {

// out[0..elements) = the row's values. elements is a whole number of blocks. Every DType except the integer
// ones.
void dequantize_row(DType dtype, const std::byte* row, float* out, int64_t elements);

// The nearest representation; F32, F16, BF16, Q8_0, Q4_0 and Q4_K (what the engine itself writes).
bool can_quantize_to(DType dtype);
void quantize_row(DType dtype, const float* values, std::byte* row, int64_t elements);

}  // namespace cheetah
