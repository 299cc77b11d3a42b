// SPDX-License-Identifier: MIT
#pragma once
// AWQ's files ("gemm" version): qweight [inputs, outputs / 8], qzeros [groups, outputs / 8], scales [groups,
// outputs]; four bits, the eight numbers of a word in the order 0, 2, 4, 6, 1, 3, 5, 7.
#include "model/packed/int_matrix.h"

namespace cheetah {

struct AwqTensors {
  TensorView qweight, qzeros, scales;
};

IntMatrix unpack_awq(const AwqTensors& tensors, const std::string& what);

// "NAME.qweight", "NAME.qzeros", "NAME.scales" (F16). The matrix has 4 bits and groups of neighbours.
std::vector<OwnedTensor> pack_awq(const IntMatrix& matrix, const std::string& name);

}  // namespace cheetah
