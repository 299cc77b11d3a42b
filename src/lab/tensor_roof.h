// SPDX-License-Identifier: MIT
#pragma once
#include "lab/machine.h"

namespace cheetah::lab {

enum class TensorInput { kBf16, kFp8 };
// Operations a second of NVIDIA's own product (cuBLASLt, loaded at run time) of large square matrices, BF16
// out; 0 where the library is not installed or refuses.
double measure_tensor_roof(TensorInput input, Machine& machine);

}  // namespace cheetah::lab
