#include "kernels/quant/quant.h"

#include <cstring>

#include "base/error.h"
#include "tensor/float16.h"

namespace cheetah {

void dequantize_row(DType dtype, const std::byte* row, float* out, int64_t elements) {
  switch (dtype) {
    case DType::kF32:
      std::memcpy(out, row, static_cast<size_t>(elements) * sizeof(float));
      return;
    default:
      throw Error("no conversion from " + std::string(name_of(dtype)));
  }
}

}  // namespace cheetah
