#pragma once
#include <mutex>
#include <utility>

namespace cheetah {

// A value that one thread renews between its steps and others read at any time. The lock is held for a swap
// or a copy, never for a step, so no one waits for work in progress.
template <class Value>
class Published {
 public:
  explicit Published(Value value = Value()) : value_(std::move(value)) {}

  // Calls use(value) and returns what it returns; `use` must be short.
  template <class Use>
  auto with(Use&& use) {
    const std::lock_guard lock(mutex_);
    return use(value_);
  }
  // Puts `next` in its place; `next` gets the old value, so that its storage can be used again.
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
