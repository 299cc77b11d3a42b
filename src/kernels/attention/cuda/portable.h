// SPDX-License-Identifier: MIT
#pragma once
// Any head size up to kMaxValueDim, any cache type, any card from Ampere on.
#include "kernels/attention/attention_cuda.h"

namespace cheetah::gpu {

inline constexpr int64_t kMaxValueDim = 1024;

template <class T>
void attention_portable(const AttentionArgs<T>& args, Stream& stream);

}  // namespace cheetah::gpu
