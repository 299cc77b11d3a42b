// SPDX-License-Identifier: MIT
#pragma once
// Kernel launches: one place that configures, checks and logs them.
#include <cuda_runtime.h>

#include <initializer_list>

#include "gpu/check.cuh"
#include "gpu/launch_log.h"
#include "gpu/stream.h"

namespace cheetah::gpu {

struct LaunchConfig {
  const char* kernel = nullptr;  // its name, for the log
  Extent grid = {};
  Extent block = {};
  int64_t shared_bytes = 0;  // dynamic
  Extent cluster = {};       // blocks that share their shared memory; 1: none
  // May start before the kernel before it ends (programmatic dependent launch): the kernel calls
  // ptx::wait_for_dependencies before it touches anything an earlier one wrote or still reads.
  bool overlaps_previous = false;
  std::initializer_list<int64_t> numbers = {};  // the problem's sizes, for the log
};

inline dim3 dim3_of(const Extent& extent) {
  return dim3(
      static_cast<unsigned>(extent.x), static_cast<unsigned>(extent.y), static_cast<unsigned>(extent.z));
}

inline void log_launch(const LaunchConfig& config, Stream& stream) {
  LaunchRecord record{.kernel = config.kernel,
      .grid = config.grid,
      .block = config.block,
      .shared_bytes = config.shared_bytes};
  for (const int64_t number : config.numbers)
    if (record.num_numbers < LaunchRecord::kMaxNumbers) record.numbers[record.num_numbers++] = number;
  stream.log().add(record);
}

// Nothing for an empty grid. Throws Error naming the kernel and its arguments when the launch is refused.
template <class... Params, class... Args>
void launch(const LaunchConfig& config, Stream& stream, void (*kernel)(Params...), Args&&... args) {
  if (config.grid.x == 0 || config.grid.y == 0 || config.grid.z == 0) return;
  log_launch(config, stream);
  constexpr int64_t kAlwaysAllowed = 48 << 10;
  if (config.shared_bytes > kAlwaysAllowed)
    check(cudaFuncSetAttribute(
              kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(config.shared_bytes)),
        stream);
  cudaLaunchAttribute attributes[2];
  unsigned num_attributes = 0;
  if (config.cluster.x * config.cluster.y * config.cluster.z > 1) {
    const dim3 cluster = dim3_of(config.cluster);
    attributes[num_attributes].id = cudaLaunchAttributeClusterDimension;
    attributes[num_attributes++].val.clusterDim = {cluster.x, cluster.y, cluster.z};
  }
  if (config.overlaps_previous && stream.device().compute_major >= 9) {
    attributes[num_attributes].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[num_attributes++].val.programmaticStreamSerializationAllowed = 1;
  }
  cudaLaunchConfig_t cuda{};
  cuda.gridDim = dim3_of(config.grid);
  cuda.blockDim = dim3_of(config.block);
  cuda.dynamicSmemBytes = static_cast<size_t>(config.shared_bytes);
  cuda.stream = stream.handle();
  cuda.attrs = attributes;
  cuda.numAttrs = num_attributes;
  check(cudaLaunchKernelEx(&cuda, kernel, static_cast<Params>(args)...), stream);
}

}  // namespace cheetah::gpu
