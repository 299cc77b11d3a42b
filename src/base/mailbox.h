// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace cheetah {

// Messages from many threads to the thread that owns the state. The lock is held only to post a message or to
// take a whole batch; the owner works without it.
template <class Message>
class Mailbox {
 public:
  // False: the box is closed and the message was not taken. Notifies under the lock, because the thread that
  // takes the last message may destroy the box.
  bool post(Message message) {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    messages_.push_back(std::move(message));
    arrived_.notify_one();
    return true;
  }
  // As post(), without waking the reader: for messages that can wait until it next looks.
  bool post_quietly(Message message) {
    const std::lock_guard lock(mutex_);
    if (closed_) return false;
    messages_.push_back(std::move(message));
    return true;
  }

  // Moves everything that has arrived into `out` (emptied first) without waiting.
  void take_all(std::vector<Message>& out) {
    out.clear();
    const std::lock_guard lock(mutex_);
    std::swap(out, messages_);
  }

  // Sleeps until a message arrives, the box closes or the time is up. True when there is something to take.
  template <class Time>
  bool wait_until(const std::chrono::time_point<std::chrono::steady_clock, Time>& until) {
    std::unique_lock lock(mutex_);
    arrived_.wait_until(lock, until, [this] { return closed_ || !messages_.empty(); });
    return !messages_.empty();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    arrived_.wait(lock, [this] { return closed_ || !messages_.empty(); });
    return !messages_.empty();
  }

  // Refuses further messages and wakes the waiters.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    arrived_.notify_all();
  }
  bool closed() const {
    const std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Message> messages_;
  bool closed_ = false;
};

}  // namespace cheetah
