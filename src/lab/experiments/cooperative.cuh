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
void launch_cooperative(const Launch& at, const CooperativeGrid& grid, void (*kernel)(Params...),
                        Args... args) {
  if (grid.shared_bytes > 0)
    gpu::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(grid.shared_bytes)));
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

// A grid barrier by hand: the last to arrive opens the next generation.
struct Gate {
  unsigned arrived;
  unsigned generation;
};
__device__ inline void meet(Gate* gate) {
  __syncthreads();
  if (threadIdx.x == 0) {
    volatile unsigned* generation = &gate->generation;
    const unsigned mine = *generation;
    __threadfence();
    if (atomicAdd(&gate->arrived, 1) == gridDim.x - 1) {
      gate->arrived = 0;
      __threadfence();
      *generation = mine + 1;
    } else {
      while (*generation == mine) {
      }
    }
    __threadfence();
  }
  __syncthreads();
}

}  // namespace cheetah::lab
