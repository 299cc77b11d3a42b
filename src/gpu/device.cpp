// SPDX-License-Identifier: MIT
#include "gpu/device.h"

#include "base/format.h"
#include "gpu/check.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kLeastComputeMajor = 8;  // what the portable PTX is written for

int attribute(cudaDeviceAttr what, int index) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, what, index));
  return value;
}

std::string why_not() {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return "no NVIDIA driver is installed on this machine (libcuda.so.1 cannot be loaded)";
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorInsufficientDriver)
    return format("the NVIDIA driver speaks CUDA {}.{} but this program needs {}.{}: update the driver",
        driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  if (status != cudaSuccess || count == 0)
    return format("no CUDA device can be used here ({})",
        status == cudaSuccess ? "the driver lists none" : cudaGetErrorString(status));
  int major = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess ||
      major < kLeastComputeMajor)
    return format("the CUDA device has compute capability {}.x but {}.0 is the least that is supported",
        major, kLeastComputeMajor);
  return "";
}

Availability find_out() {
  Availability found{.available = false, .reason = why_not()};
  found.available = found.reason.empty();
  return found;
}

}  // namespace

const Availability& cuda_available() {
  static const Availability answer = find_out();
  return answer;
}

DeviceInfo query_device(int index) {
  if (!cuda_available()) throw Error(cuda_available().reason);
  int count = 0;
  check(cudaGetDeviceCount(&count));
  if (index < 0 || index >= count)
    throw Error(format("there is no CUDA device {}, this machine has {}", index, count));
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, index));
  DeviceInfo info{.index = index,
      .name = properties.name,
      .compute_major = properties.major,
      .compute_minor = properties.minor,
      .num_sms = properties.multiProcessorCount,
      .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
      .l2_bytes = properties.l2CacheSize,
      .shared_bytes_per_block = static_cast<int64_t>(properties.sharedMemPerBlockOptin),
      .clock_mhz = attribute(cudaDevAttrClockRate, index) / 1e3,
      .memory_clock_mhz = attribute(cudaDevAttrMemoryClockRate, index) / 1e3,
      .memory_bus_bits = properties.memoryBusWidth};
  check(cudaDriverGetVersion(&info.driver_version));
  check(cudaRuntimeGetVersion(&info.runtime_version));
  return info;
}

DeviceMemoryBytes device_memory(int index) {
  use_device(index);
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  return {.free = static_cast<int64_t>(free), .total = static_cast<int64_t>(total)};
}

void use_device(int index) {
  if (!cuda_available()) throw Error(cuda_available().reason);
  check(cudaSetDevice(index));
}

}  // namespace cheetah::gpu
