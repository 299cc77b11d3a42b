// SPDX-License-Identifier: MIT
#pragma once
// Any shape, any weight type, any card from Ampere on.
#include "kernels/gemm/gemm_cuda.h"

namespace cheetah::gpu {

template <class X, class Y>
void gemm_portable(const GemmArgs<X, Y>& args, Stream& stream);
template <class X, class Y>
void grouped_gemm_portable(const GroupedGemmArgs<X, Y>& args, Stream& stream);

}  // namespace cheetah::gpu
