// SPDX-License-Identifier: MIT
#pragma once
// Stored rows as BF16, for the tensor cores.
#include "kernels/gemm/gemm_cuda.h"

namespace cheetah::gpu {

// Types whose numbers BF16 holds, or holds to within the half unit that activations cost anyway.
bool can_widen(DType dtype);

// Rows [first, first + count) of w, dense, into y [count, w.cols]. w.cols is a multiple of 8, y 16-byte
// aligned.
void widen_rows(const WeightMatrix& w, int64_t first, int64_t count, Bf16* y, Stream& stream);

}  // namespace cheetah::gpu
