// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "base/format.h"
#include "base/statistics.h"
#include "doctor/facts/gpu.h"
#include "doctor/measure.h"
#include "doctor/measure/cuda.h"
#include "doctor/measure/timing.h"

namespace cheetah::doctor {
bool fill_random(const RuntimeLibrary& cuda, const DeviceMemory& memory, size_t count) {
  std::vector<uint16_t> block(size_t{1} << 20);
  std::mt19937 random(11);
  for (uint16_t& value : block) {
    const float number = static_cast<float>(random()) / 2147483648.0f - 1.0f;
    uint32_t bits = 0;
    std::memcpy(&bits, &number, 4);
    value = static_cast<uint16_t>(bits >> 16);
  }
  for (size_t at = 0; at < count; at += block.size()) {
    const size_t part = std::min(block.size(), count - at) * 2;
    if (!cuda.call("cuMemcpyHtoD_v2", memory.get() + at * 2, static_cast<const void*>(block.data()), part))
      return false;
  }
  return true;
}

namespace {

constexpr size_t kCopyBytes = size_t{256} << 20;
constexpr size_t kDeviceCopyBytes = size_t{2} << 30;
constexpr int kGemmSize = 8192;

// An empty kernel, compiled by the driver for whatever GPU this is.
constexpr const char* kEmptyKernel =
    ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry empty() { ret; }\n";

void measure_host_copies(
    const RuntimeLibrary& cuda, const Context& context, const std::string& prefix, Results& results) {
  const DeviceMemory device(cuda, kCopyBytes);
  void* pinned = nullptr;
  if (!device.ok() || !cuda.call("cuMemAllocHost_v2", &pinned, kCopyBytes))
    return results.skip(prefix + "pinned_in", "out of memory");
  std::memset(pinned, 1, kCopyBytes);
  std::vector<char> pageable(kCopyBytes, 1);
  const auto rate = [&](double seconds) {
    return seconds > 0 ? static_cast<double>(kCopyBytes) / seconds : 0;
  };
  const auto in = [&](const void* from) {
    return rate(context.seconds(
        [&] { return cuda.call("cuMemcpyHtoDAsync_v2", device.get(), from, kCopyBytes, context.stream()); },
        5));
  };
  const auto out = [&](void* to) {
    return rate(context.seconds(
        [&] { return cuda.call("cuMemcpyDtoHAsync_v2", to, device.get(), kCopyBytes, context.stream()); },
        5));
  };
  results.add(prefix + "pinned_in", in(pinned));
  results.add(prefix + "pinned_out", out(pinned));
  results.add(prefix + "pageable_in", in(pageable.data()));
  results.add(prefix + "pageable_out", out(pageable.data()));
  cuda.call("cuMemFreeHost", pinned);
}

void measure_device_copy(
    const RuntimeLibrary& cuda, const Context& context, const std::string& prefix, Results& results) {
  const DeviceMemory from(cuda, kDeviceCopyBytes), to(cuda, kDeviceCopyBytes);
  if (!from.ok() || !to.ok()) return results.skip(prefix + "copy", "less than 4 GiB of GPU memory is free");
  cuda.call("cuMemsetD8Async", from.get(), static_cast<unsigned char>(7), kDeviceCopyBytes, context.stream());
  const double seconds = context.seconds([&] {
    return cuda.call("cuMemcpyDtoDAsync_v2", to.get(), from.get(), kDeviceCopyBytes, context.stream());
  });
  if (seconds > 0)
    results.add(prefix + "copy", 2.0 * static_cast<double>(kDeviceCopyBytes) / seconds);  // read and written
}

void measure_launches(
    const RuntimeLibrary& cuda, const Context& context, const std::string& prefix, Results& results) {
  CudaHandle module = nullptr, function = nullptr;
  if (!cuda.call("cuModuleLoadData", &module, static_cast<const void*>(kEmptyKernel)) ||
      !cuda.call("cuModuleGetFunction", &function, module, "empty"))
    return results.skip(prefix + "launch_us", "the driver could not compile a kernel");
  const auto launch = [&] {
    return cuda.call("cuLaunchKernel", function, 1u, 1u, 1u, 32u, 1u, 1u, 0u, context.stream(),
        static_cast<void**>(nullptr), static_cast<void**>(nullptr));
  };
  constexpr int kLaunches = 1000;
  for (int i = 0; i < 100; ++i) launch();
  context.wait();
  std::vector<double> samples;
  for (int round = 0; round < 5; ++round) {
    const auto begin = MeasureClock::now();
    for (int i = 0; i < kLaunches; ++i) launch();
    samples.push_back(seconds_since(begin) / kLaunches * 1e6);
    context.wait();
  }
  results.add(prefix + "launch_us", median(samples));
  std::vector<double> trips;
  for (int i = 0; i < 200; ++i) {
    const auto begin = MeasureClock::now();
    launch();
    context.wait();
    trips.push_back(seconds_since(begin) * 1e6);
  }
  results.add(prefix + "launch_and_wait_us", median(trips));
  cuda.call("cuModuleUnload", module);
}

void measure_gemm(const RuntimeLibrary& cuda, const Context& context, int index,
    const MeasureOptions& options, Results& results) {
  const std::string prefix = format("gpu.{}.", index);
  const RuntimeLibrary blas(
      {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "/usr/local/cuda/lib64/libcublas.so"});
  if (!blas.loaded()) return results.skip(prefix + "gemm_bf16", "cuBLAS is not installed");
  constexpr size_t kCount = size_t{kGemmSize} * kGemmSize;
  const DeviceMemory a(cuda, kCount * 2), b(cuda, kCount * 2), c(cuda, kCount * 2);
  CudaHandle handle = nullptr;
  if (!a.ok() || !b.ok() || !c.ok() || !fill_random(cuda, a, kCount) || !fill_random(cuda, b, kCount) ||
      !blas.call("cublasCreate_v2", &handle))
    return results.skip(prefix + "gemm_bf16", "cuBLAS could not be started");
  blas.call("cublasSetStream_v2", handle, context.stream());
  constexpr int kBf16 = 14, kComputeF32 = 68, kDefaultAlgorithm = -1, kPlain = 0;
  const float one = 1, zero = 0;
  const auto multiply = [&] {
    return blas.call("cublasGemmEx", handle, kPlain, kPlain, kGemmSize, kGemmSize, kGemmSize,
        static_cast<const void*>(&one), a.get(), kBf16, kGemmSize, b.get(), kBf16, kGemmSize,
        static_cast<const void*>(&zero), c.get(), kBf16, kGemmSize, kComputeF32, kDefaultAlgorithm);
  };
  const double seconds = context.seconds(multiply, 20);
  if (seconds <= 0) return results.skip(prefix + "gemm_bf16", "cuBLAS refused the product");
  results.add(prefix + "gemm_bf16", 2.0 * kGemmSize * kGemmSize * kGemmSize / seconds);
  // About a second of work, then a look at the clocks before it is over.
  for (int i = 0; i < static_cast<int>(1.0 / seconds); ++i) multiply();
  const Text nvml = read_nvml(options.nvml_library);
  context.wait();
  for (const Gpu& gpu : parse_gpus(nvml.text, "nvml")) {
    if (gpu.index != index) continue;
    for (const char* name : {"clock.sm", "clock.sm.max", "power.draw", "temperature", "throttle"})
      if (const auto value = gpu.number(name)) results.add(prefix + "load." + name, *value);
  }
  blas.call("cublasDestroy_v2", handle);
}

bool is_used_by_others(const Gpu& gpu) { return !gpu.processes().empty(); }

}  // namespace

void measure_gpus(const MeasureOptions& options, Results& results) {
  const RuntimeLibrary cuda({"libcuda.so.1"});
  if (!cuda.loaded()) return results.skip("gpu.0.pinned_in", "there is no CUDA driver");
  const Text nvml = read_nvml(options.nvml_library);
  const auto gpus = parse_gpus(nvml.text, "nvml");
  const auto begin = MeasureClock::now();
  int count = 0;
  if (!cuda.call("cuInit", 0u) || !cuda.call("cuDeviceGetCount", &count) || count == 0)
    return results.skip("gpu.0.pinned_in", "CUDA does not start");
  for (int index = 0; index < std::min(count, 8); ++index) {
    const std::string prefix = format("gpu.{}.", index);
    const bool busy = std::any_of(gpus.begin(), gpus.end(),
        [&](const Gpu& gpu) { return gpu.index == index && is_used_by_others(gpu); });
    if (busy) {
      results.skip(prefix + "pinned_in", "another program uses this GPU: it is left alone");
      continue;
    }
    const Context context(cuda, index);
    if (!context.ok()) {
      results.skip(prefix + "pinned_in", "no context could be made");
      continue;
    }
    if (index == 0) results.add("gpu.start_s", seconds_since(begin));
    measure_host_copies(cuda, context, prefix, results);
    measure_device_copy(cuda, context, prefix, results);
    measure_launches(cuda, context, prefix, results);
    measure_gemm(cuda, context, index, options, results);
  }
}

}  // namespace cheetah::doctor
