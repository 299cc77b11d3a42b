// SPDX-License-Identifier: MIT
#pragma once
// Device memory of a trial that does not belong to its input sets: neither copied, poisoned nor guarded. Not
// initialised.
#include <memory>

#include "gpu/memory.h"
#include "lab/trial.h"

namespace cheetah::lab {

// Lives as long as the lambdas that capture it.
template <class T>
class DeviceScratch {
 public:
  DeviceScratch(const Setup& setup, int64_t count)
      : buffer_(std::make_shared<gpu::DeviceBuffer>(setup.memory->allocate(
            gpu::ArenaKind::kWorkspace, count * static_cast<int64_t>(sizeof(T)), *setup.stream))) {}
  T* data() const { return buffer_->as<T>(); }

 private:
  std::shared_ptr<gpu::DeviceBuffer> buffer_;
};

}  // namespace cheetah::lab
