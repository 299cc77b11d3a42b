// SPDX-License-Identifier: MIT
// One GPU under load, and what it computed checked.
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/format.h"
#include "doctor/facts/gpu.h"
#include "doctor/measure/active.h"
#include "doctor/measure/active_kernels.h"
#include "doctor/measure/timing.h"

namespace cheetah::doctor {
namespace {

constexpr double kMemoryShare = 0.90;  // of what is free
constexpr int kSize = 8192;
constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

struct Pattern {
  uint64_t factor, seed;
};
constexpr Pattern kPatterns[] = {{0, 0}, {0, ~uint64_t{0}}, {0, 0xaaaaaaaaaaaaaaaa}, {0, 0x5555555555555555},
    {0, 0x00ff00ff00ff00ff}, {1, 0}, {1, ~uint64_t{0}}, {kGolden, 0x0123456789abcdef}};

void test_memory(const RuntimeLibrary& cuda, const PatternKernels& kernels, double seconds,
    const std::string& prefix, Results& results) {
  size_t free_bytes = 0, total = 0;
  cuda.call("cuMemGetInfo_v2", &free_bytes, &total);
  const auto bytes = static_cast<size_t>(static_cast<double>(free_bytes) * kMemoryShare) >> 21 << 21;
  const DeviceMemory memory(cuda, bytes);
  if (!memory.ok() || bytes == 0) return results.skip(prefix + "memory_test.errors", "no GPU memory is free");
  const uint64_t words = bytes / 8;
  const auto begin = MeasureClock::now();
  int64_t passes = 0;
  double moved = 0, wrong = 0;
  do {
    const Pattern& pattern = kPatterns[static_cast<size_t>(passes) % std::size(kPatterns)];
    if (!kernels.fill(memory.get(), words, pattern.factor, pattern.seed) ||
        !kernels.check(memory.get(), words, pattern.factor, pattern.seed) || (wrong = kernels.wrong()) < 0)
      return results.skip(prefix + "memory_test.errors", "the GPU stopped during the test");
    ++passes;
    moved += 2.0 * static_cast<double>(bytes);
  } while (seconds_since(begin) < seconds || passes < static_cast<int64_t>(std::size(kPatterns)));
  results.add(prefix + "memory_test.errors", wrong);
  results.add(prefix + "memory_test.passes", static_cast<double>(passes));
  results.add(prefix + "memory_test.bytes", static_cast<double>(bytes));
  results.add(prefix + "memory_test.stream", moved / seconds_since(begin));
}

// What NVML said while the GPU worked.
struct Watch {
  double throttled_s = 0, most_temperature = 0, least_clock = 1e9, most_power = 0;
  void look(const MeasureOptions& options, int index, double seconds) {
    constexpr uint64_t kSlow = 0x8 | 0x20 | 0x40 | 0x80;  // hardware, heat, power brake
    const Text nvml = read_nvml(options.nvml_library);
    for (const Gpu& gpu : parse_gpus(nvml.text, "nvml")) {
      if (gpu.index != index) continue;
      const double bits = gpu.number("throttle").value_or(0);
      if (bits >= 0 && bits < 1e15 && (static_cast<uint64_t>(bits) & kSlow) != 0) throttled_s += seconds;
      most_temperature = std::max(most_temperature, gpu.number("temperature").value_or(0));
      least_clock = std::min(least_clock, gpu.number("clock.sm").value_or(1e9));
      most_power = std::max(most_power, gpu.number("power.draw").value_or(0));
    }
  }
};

// The same product again and again: every result must equal the first, bit by bit.
void test_products(const RuntimeLibrary& cuda, const Context& context, const PatternKernels& kernels,
    int index, double seconds, const MeasureOptions& options, Results& results) {
  const std::string prefix = format("gpu.{}.", index);
  const RuntimeLibrary blas(
      {"libcublas.so.13", "libcublas.so.12", "libcublas.so.11", "/usr/local/cuda/lib64/libcublas.so"});
  if (!blas.loaded()) return results.skip(prefix + "stress.errors", "cuBLAS is not installed");
  constexpr size_t kCount = size_t{kSize} * kSize;
  const DeviceMemory a(cuda, kCount * 2), b(cuda, kCount * 2), c(cuda, kCount * 2), first(cuda, kCount * 2);
  CudaHandle handle = nullptr;
  if (!a.ok() || !b.ok() || !c.ok() || !first.ok() || !fill_random(cuda, a, kCount) ||
      !fill_random(cuda, b, kCount) || !blas.call("cublasCreate_v2", &handle))
    return results.skip(prefix + "stress.errors", "cuBLAS could not be started");
  blas.call("cublasSetStream_v2", handle, context.stream());
  constexpr int kBf16 = 14, kComputeF32 = 68, kDefaultAlgorithm = -1, kPlain = 0;
  const float one = 1, zero = 0;
  const auto multiply = [&](const DeviceMemory& into) {
    return blas.call("cublasGemmEx", handle, kPlain, kPlain, kSize, kSize, kSize,
        static_cast<const void*>(&one), a.get(), kBf16, kSize, b.get(), kBf16, kSize,
        static_cast<const void*>(&zero), into.get(), kBf16, kSize, kComputeF32, kDefaultAlgorithm);
  };
  const double each = context.seconds([&] { return multiply(first); }, 5);
  if (each <= 0) {
    blas.call("cublasDestroy_v2", handle);
    return results.skip(prefix + "stress.errors", "cuBLAS refused the product");
  }
  const double before = kernels.wrong();
  const int batch = std::max(1, static_cast<int>(0.5 / each));
  std::vector<double> rates;
  Watch watch;
  const auto begin = MeasureClock::now();
  double after = before;
  while (seconds_since(begin) < seconds && after >= 0) {
    const auto start = MeasureClock::now();
    for (int i = 0; i < batch; ++i) multiply(c);
    watch.look(options, index, static_cast<double>(batch) * each);
    context.wait();
    rates.push_back(batch * 2.0 * kSize * kSize * kSize / seconds_since(start));
    kernels.compare(c.get(), first.get(), kCount / 4);
    after = kernels.wrong();
  }
  blas.call("cublasDestroy_v2", handle);
  if (after < 0 || rates.empty())
    return results.skip(prefix + "stress.errors", "the GPU stopped during the test");
  const size_t tenth = std::max<size_t>(1, rates.size() / 10);
  results.add(prefix + "gemm_bf16", rates.front());
  results.add(prefix + "stress.errors", after - before);
  results.add(prefix + "stress.gemm_first",
      median(std::vector<double>(rates.begin(), rates.begin() + static_cast<std::ptrdiff_t>(tenth))));
  results.add(prefix + "stress.gemm_last",
      median(std::vector<double>(rates.end() - static_cast<std::ptrdiff_t>(tenth), rates.end())));
  results.add(prefix + "stress.throttled_s", watch.throttled_s);
  results.add(prefix + "stress.temperature", watch.most_temperature);
  results.add(prefix + "stress.power", watch.most_power);
  if (watch.least_clock < 1e9) results.add(prefix + "stress.clock", watch.least_clock);
}

void test_link(
    const RuntimeLibrary& cuda, const Context& context, const std::string& prefix, Results& results) {
  constexpr size_t kBytes = size_t{64} << 20;
  const DeviceMemory device(cuda, kBytes);
  void* pinned = nullptr;
  if (!device.ok() || !cuda.call("cuMemAllocHost_v2", &pinned, kBytes))
    return results.skip(prefix + "pinned_in", "out of memory");
  std::memset(pinned, 1, kBytes);
  const auto copy = [&](bool in, size_t bytes) {
    return context.seconds([&] {
      return in ? cuda.call("cuMemcpyHtoDAsync_v2", device.get(), static_cast<const void*>(pinned), bytes,
                      context.stream())
                : cuda.call("cuMemcpyDtoHAsync_v2", pinned, device.get(), bytes, context.stream());
    });
  };
  const double in = copy(true, kBytes), out = copy(false, kBytes);
  if (in > 0) results.add(prefix + "pinned_in", static_cast<double>(kBytes) / in);
  if (out > 0) results.add(prefix + "pinned_out", static_cast<double>(kBytes) / out);
  results.add(prefix + "copy_latency_us", 1e6 * copy(true, 8));
  cuda.call("cuMemFreeHost", pinned);
}

}  // namespace

void test_gpu(int index, double seconds, const MeasureOptions& options, Results& results) {
  const std::string prefix = format("gpu.{}.", index);
  const RuntimeLibrary cuda({"libcuda.so.1"});
  const Context context(cuda, index);
  if (!context.ok()) return results.skip(prefix + "memory_test.errors", "no context could be made");
  const PatternKernels kernels(cuda, context);
  if (!kernels.ok())
    return results.skip(prefix + "memory_test.errors", "the driver could not compile the kernels");
  test_link(cuda, context, prefix, results);
  test_memory(cuda, kernels, seconds / 2, prefix, results);
  test_products(cuda, context, kernels, index, seconds / 2, options, results);
}

}  // namespace cheetah::doctor
