// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/time.h"

namespace cheetah {

// How many of something are open. Any thread adds, removes and reads without a lock; only the change to 0 takes one,
// to wake the threads that wait for it. Outlives every remove().
class OpenCount {
 public:
  void add(int64_t count = 1) { count_ += count; }
  void remove(int64_t count = 1) {
    if ((count_ -= count) != 0) return;
    const std::lock_guard lock(mutex_);
    none_.notify_all();
  }
  operator int64_t() const { return count_; }  // NOLINT: reads like the atomic that it holds

  // Sleeps until the count is 0 or the time is up. True: it is 0.
  bool wait_for_none(SteadyTime until) {
    std::unique_lock lock(mutex_);
    return none_.wait_until(lock, until, [this] { return count_ == 0; });
  }

 private:
  std::atomic<int64_t> count_ = 0;
  std::mutex mutex_;
  std::condition_variable none_;
};

}  // namespace cheetah
