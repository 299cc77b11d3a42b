// SPDX-License-Identifier: MIT
#pragma once
// GPTQ's files: qweight [inputs * bits / 32, outputs], qzeros [groups, outputs * bits / 32], scales [groups,
// outputs], g_idx [inputs]. Version 1 stores each zero less one.
#include "model/packed/int_matrix.h"

namespace cheetah {

struct GptqTensors {
  TensorView qweight, qzeros, scales;
  const TensorView* g_idx = nullptr;
  bool minus_one = true;  // version 1
};

// Throws Error naming `what` for shapes that do not fit each other.
IntMatrix unpack_gptq(const GptqTensors& tensors, const std::string& what);

// "NAME.qweight", "NAME.qzeros", "NAME.scales" (F16), "NAME.g_idx".
std::vector<OwnedTensor> pack_gptq(const IntMatrix& matrix, const std::string& name);

}  // namespace cheetah
