// SPDX-License-Identifier: MIT
#pragma once
// One thread with its own event loop. A connection lives on one of them, so nothing about it needs a lock.
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include "base/mailbox.h"

namespace boost::asio {
class io_context;
}

namespace cheetah {

using ServeTime = std::chrono::steady_clock::time_point;

// Something on a network thread that other threads wake.
class Notified {
 public:
  virtual ~Notified() = default;
  virtual void on_notified() = 0;  // on its network thread
};

class NetworkThread {
 public:
  NetworkThread();
  ~NetworkThread();
  NetworkThread(const NetworkThread&) = delete;
  NetworkThread& operator=(const NetworkThread&) = delete;

  void start();
  void stop();  // returns when the thread has ended

  boost::asio::io_context& context();
  // From any thread. Waking up and writing cost more than all else that is done for a token; so after
  // handling some, the thread rests in proportion to their number and what arrives meanwhile is handled
  // together, unless urge() says that someone waits for it.
  void notify(std::shared_ptr<Notified> target);
  void urge();
  // From any thread: runs `work` on this one.
  void run(std::function<void()> work);
  // Calls `tick` about every `interval` while it returns true.
  void tick_every(std::chrono::milliseconds interval, std::function<bool(ServeTime)> tick);

 private:
  void wake();
  void deliver();
  void rest(size_t num_handled);
  struct State;
  std::unique_ptr<State> state_;
  Mailbox<std::shared_ptr<Notified>> inbox_;
  std::vector<std::shared_ptr<Notified>> batch_;
  std::atomic<bool> woken_ = false;  // a delivery is on its way, at the latest when the rest is over
  std::atomic<bool> urged_ = false;  // a delivery is on its way at once
};

}  // namespace cheetah
