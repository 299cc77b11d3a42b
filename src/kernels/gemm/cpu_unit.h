// SPDX-License-Identifier: MIT
#pragma once
// Which unit of the CPU multiplies a matrix, so that a share of its peak can be told.
#include "kernels/gemm/gemm.h"

namespace cheetah {

enum class CpuUnit { kF32, kBf16Dots, kInt8Dots };
CpuUnit unit_for(const WeightMatrix& w, Precision precision);

}  // namespace cheetah
