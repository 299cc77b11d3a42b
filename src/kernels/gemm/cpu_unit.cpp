// SPDX-License-Identifier: MIT
#include "kernels/gemm/cpu_unit.h"

#include "kernels/gemm/tile.h"

namespace cheetah {

CpuUnit unit_for(const WeightMatrix& w, Precision precision) {
  if (precision == Precision::kExact) return CpuUnit::kF32;
  if (fits_int8_tile(w.dtype)) return CpuUnit::kInt8Dots;
  return fits_bf16_tile(w) ? CpuUnit::kBf16Dots : CpuUnit::kF32;
}

}  // namespace cheetah
