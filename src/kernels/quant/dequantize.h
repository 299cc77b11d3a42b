#pragma once
// Plain loops over each format: what the SIMD conversions are held to, and the only code for the rarer types.
#include <cstddef>
#include <cstdint>

#include "tensor/dtype.h"

namespace cheetah {

void dequantize_row_reference(DType dtype, const std::byte* row, float* out, int64_t elements);

// The types with a SIMD conversion: F32, F16, BF16, Q8_0, Q4_0, Q4_K.
bool has_fast_dequantize(DType dtype);
void dequantize_row_fast(DType dtype, const std::byte* row, float* out, int64_t elements);

}  // namespace cheetah
