// SPDX-License-Identifier: MIT
#include "lab/machine.h"

#include <algorithm>

#include "base/format.h"
#include "hw/cpu.h"

namespace cheetah::lab {
namespace {

std::optional<std::string> too_old(const gpu::DeviceInfo& device, int needed) {
  if (10 * device.compute_major + device.compute_minor >= needed) return std::nullopt;
  return format("needs compute capability {}.{}; {} has {}.{}", needed / 10, needed % 10, device.name,
      device.compute_major, device.compute_minor);
}

}  // namespace

Machine::Machine() {
  constexpr int64_t kUnknownCache = int64_t{32} << 20;  // where the kernel does not tell
  cpu_cache_bytes_ = last_level_cache_bytes() > 0 ? last_level_cache_bytes() : kUnknownCache;
  if (!gpu::cuda_available()) {
    no_gpu_reason_ = gpu::cuda_available().reason;
    return;
  }
  device_ = gpu::query_device();
  memory_ = std::make_unique<gpu::DeviceMemory>(device_);
  stream_ = std::make_unique<gpu::Stream>(device_);
}

std::optional<std::string> Machine::refusal(const Experiment& experiment) const {
  if (experiment.domain == Domain::kCpu) return std::nullopt;
  if (!has_gpu()) return no_gpu_reason_;
  return too_old(device_, experiment.min_compute);
}

std::optional<std::string> Machine::refusal(const Experiment& experiment, const Variant& variant) const {
  if (experiment.domain == Domain::kCpu) return std::nullopt;
  return too_old(device_, variant.min_compute);
}

Setup Machine::setup(const Experiment& experiment, const Size& size) {
  const bool cuda = experiment.domain == Domain::kCuda;
  return {.experiment = experiment,
      .size = size,
      .threads = threads_,
      .cache_bytes = cuda ? device_.l2_bytes : cpu_cache_bytes_,
      .stream = cuda ? stream_.get() : nullptr,
      .memory = cuda ? memory_.get() : nullptr};
}

}  // namespace cheetah::lab
