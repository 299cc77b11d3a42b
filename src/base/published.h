// SPDX-License-Identifier: MIT
#pragma once
#include <mutex>
#include <utility>

namespace cheetah {

// A value that one thread replaces between its steps and others read at any time. The lock is held for a swap
// or a copy, never for a step, so readers do not wait for work in progress.
template <class Value>
class Published {
 public:
  explicit Published(Value value = Value()) : value_(std::move(value)) {}

  // Returns use(value). The lock is held meanwhile, so `use` must be short.
  template <class Use>
  auto with(Use&& use) {
    const std::lock_guard lock(mutex_);
    return use(value_);
  }
  // Exchanges the value with `next`, which gets the old value so that its storage can be reused.
  void swap_in(Value& next) {
    const std::lock_guard lock(mutex_);
    std::swap(value_, next);
  }
  Value copy() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }

 private:
  mutable std::mutex mutex_;
  Value value_;
};

}  // namespace cheetah
