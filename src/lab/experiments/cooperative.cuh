// SPDX-License-Identifier: MIT
#pragma once
// Kernels whose blocks wait for each other: all of them are on the card at once.
#include "gpu/launch.cuh"
#include "lab/array_trial.h"

namespace cheetah::lab {

struct CooperativeGrid {
  int64_t blocks = 0;
  int threads = 0;
  int64_t shared_bytes = 0;  // dynamic
};

// Throws Error when the grid is larger than the card can hold.
template <class... Params, class... Args>
void launch_cooperative(
    const Launch& at, const CooperativeGrid& grid, void (*kernel)(Params...), Args... args) {
  if (grid.shared_bytes > 0)
    gpu::check(cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(grid.shared_bytes)));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(grid.blocks));
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = static_cast<size_t>(grid.shared_bytes);
  config.stream = at.stream().handle();
  config.attrs = &attribute;
  config.numAttrs = 1;
  gpu::check(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), at.stream());
}

// A grid barrier by hand: a ticket that only grows. One gate serves one size of grid.
struct Gate {
  unsigned arrived;
};
__device__ inline void meet(Gate* gate) {
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    const unsigned ticket = atomicAdd(&gate->arrived, 1);
    const unsigned goal = ticket - ticket % gridDim.x + gridDim.x;  // when all of this round have come
    const volatile unsigned* arrived = &gate->arrived;
    while (static_cast<int>(*arrived - goal) < 0) {
    }
    __threadfence();
  }
  __syncthreads();
}

}  // namespace cheetah::lab
