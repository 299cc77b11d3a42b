// SPDX-License-Identifier: MIT
#pragma once
#include <map>
#include <string>

#include "tensor/tensor.h"

namespace cheetah {

// Tensors of a checkpoint by name. The views point into the files that hold them.
using TensorMap = std::map<std::string, TensorView, std::less<>>;

}  // namespace cheetah
