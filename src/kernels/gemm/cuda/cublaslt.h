// SPDX-License-Identifier: MIT
#pragma once
// NVIDIA's own product as one of the variants. The library is large and not on every machine: loaded at the
// first question about it, never linked.
#include "kernels/gemm/cuda/hopper.h"

namespace cheetah::gpu {

// Whether the library is there and has a kernel for this product. It knows no gates; of FP8 it takes a scale
// for each row of x and of W, or none at all.
bool cublaslt_fits(const HopperGemmArgs& args);
void cublaslt_gemm(const HopperGemmArgs& args, Stream& stream);

}  // namespace cheetah::gpu
