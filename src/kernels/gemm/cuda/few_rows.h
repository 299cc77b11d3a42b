// SPDX-License-Identifier: MIT
#pragma once
// Products of few rows of x with weights that the tensor cores do not read as stored: F32 everywhere, F16 and
// BF16 on cards before Hopper or where rows do not fit its copy engine.
#include "kernels/gemm/gemm_cuda.h"

namespace cheetah::gpu {

template <class X, class Y>
bool few_rows_fit(const GemmArgs<X, Y>& args, const DeviceInfo& device);
// Whether it takes less time than the tensor cores do with W rounded to BF16 first.
template <class X, class Y>
bool few_rows_pay(const GemmArgs<X, Y>& args, const DeviceInfo& device);
template <class X, class Y>
void gemm_few_rows(const GemmArgs<X, Y>& args, Stream& stream);

}  // namespace cheetah::gpu
