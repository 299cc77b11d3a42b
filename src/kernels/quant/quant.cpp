#include "kernels/quant/quant.h"

#include "kernels/quant/dequantize.h"

namespace cheetah {

void dequantize_row(DType dtype, const std::byte* row, float* out, int64_t elements) {
  if (has_fast_dequantize(dtype)) return dequantize_row_fast(dtype, row, out, elements);
  dequantize_row_reference(dtype, row, out, elements);
}

}  // namespace cheetah
