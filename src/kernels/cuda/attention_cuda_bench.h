// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/device_bench.h"

namespace cheetah::gpu {

// Every variant of attention over head shapes beyond random:llama-8b's: latent rows (MLA) and long heads.
void bench_attention(DeviceBench& device);

}  // namespace cheetah::gpu
