// SPDX-License-Identifier: MIT
#pragma once
#include "kernels/cuda/device_bench.h"

namespace cheetah::gpu {

// Large products beside NVIDIA's library, those of a decode step beside the memory's read bandwidth, and
// those of random:llama-8b's layers at several batches.
void bench_products(DeviceBench& bench);

// Prints gemm/cuda/tuned_h200.h: the table of fastest variants.
void tune_products(DeviceBench& bench);

}  // namespace cheetah::gpu
