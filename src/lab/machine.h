// SPDX-License-Identifier: MIT
#pragma once
// What experiments run on: threads, and the GPU where there is one.
#include <memory>
#include <string>

#include "base/thread_pool.h"
#include "gpu/memory.h"
#include "gpu/stream.h"
#include "lab/experiment.h"

namespace cheetah::lab {

// Owns the machine's parts for a run. One thread.
class Machine {
 public:
  Machine();

  ThreadPool& threads() { return threads_; }
  int64_t cpu_cache_bytes() const { return cpu_cache_bytes_; }
  bool has_gpu() const { return stream_ != nullptr; }
  const std::string& no_gpu_reason() const { return no_gpu_reason_; }
  gpu::Stream& stream() { return *stream_; }
  gpu::DeviceMemory& memory() { return *memory_; }
  const gpu::DeviceInfo& device() const { return device_; }

  // nullopt: the experiment can run here. Otherwise why not.
  std::optional<std::string> refusal(const Experiment& experiment) const;
  std::optional<std::string> refusal(const Experiment& experiment, const Variant& variant) const;
  Setup setup(const Experiment& experiment, const Size& size);

 private:
  ThreadPool threads_;
  int64_t cpu_cache_bytes_ = 0;
  std::string no_gpu_reason_;
  gpu::DeviceInfo device_;
  std::unique_ptr<gpu::DeviceMemory> memory_;
  std::unique_ptr<gpu::Stream> stream_;  // after memory_: buffers are freed in the stream's order
};

}  // namespace cheetah::lab
