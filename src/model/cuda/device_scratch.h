// SPDX-License-Identifier: MIT
#pragma once
#include "model/model.h"

namespace cheetah {

// Device memory that only ever grows. Growing forgets the contents; new memory is zero, so that rows that
// only fill up a step hold numbers.
class DeviceScratch {
 public:
  // Tells whether it grew.
  bool reserve(int64_t bytes, const DevicePlace& place) {
    if (buffer_.size() >= bytes) return false;
    buffer_ = place.memory.allocate(gpu::ArenaKind::kWorkspace, bytes, place.stream);
    gpu::fill_bytes(buffer_.data(), 0, bytes, place.stream);
    return true;
  }
  template <class T>
  T* as() const {
    return buffer_.as<T>();
  }

 private:
  gpu::DeviceBuffer buffer_;
};

}  // namespace cheetah
