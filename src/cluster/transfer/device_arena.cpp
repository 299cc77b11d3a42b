// SPDX-License-Identifier: MIT
#include "cluster/transfer/device_arena.h"

#include "base/error.h"
#include "gpu/device.h"

#ifdef CHEETAH_HAS_CUDA
#include <cuda_runtime_api.h>

#include <cstring>

#include "gpu/check.cuh"
#endif

namespace cheetah::cluster::transfer {

#ifdef CHEETAH_HAS_CUDA

// Not from the stream-ordered pools: their memory cannot be opened by this kind of handle.
DeviceArena::DeviceArena(int64_t bytes) {
  void* memory = nullptr;
  gpu::check(cudaMalloc(&memory, static_cast<size_t>(bytes)));
  data_ = static_cast<std::byte*>(memory);
  cudaIpcMemHandle_t handle;
  const cudaError_t status = cudaIpcGetMemHandle(&handle, memory);
  if (status != cudaSuccess) cudaFree(memory);
  gpu::check(status);
  handle_.assign(reinterpret_cast<const char*>(&handle), sizeof handle);
}
DeviceArena::~DeviceArena() { cudaFree(data_); }

OpenedDeviceArena::OpenedDeviceArena(const std::string& handle) {
  cudaIpcMemHandle_t raw;
  if (handle.size() != sizeof raw) throw Error("transfer peer: sent a CUDA IPC handle of the wrong size");
  std::memcpy(&raw, handle.data(), sizeof raw);
  void* memory = nullptr;
  gpu::check(cudaIpcOpenMemHandle(&memory, raw, cudaIpcMemLazyEnablePeerAccess));
  data_ = static_cast<std::byte*>(memory);
}
OpenedDeviceArena::~OpenedDeviceArena() { cudaIpcCloseMemHandle(data_); }

void copy_device_bytes(std::byte* to, std::span<const std::byte> from) {
  gpu::check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyDefault, cudaStreamPerThread));
  gpu::check(cudaStreamSynchronize(cudaStreamPerThread));
}

#else

DeviceArena::DeviceArena(int64_t) { throw Error(gpu::cuda_available().reason); }
DeviceArena::~DeviceArena() = default;
OpenedDeviceArena::OpenedDeviceArena(const std::string&) { throw Error(gpu::cuda_available().reason); }
OpenedDeviceArena::~OpenedDeviceArena() = default;
void copy_device_bytes(std::byte*, std::span<const std::byte>) { throw Error(gpu::cuda_available().reason); }

#endif

}  // namespace cheetah::cluster::transfer
