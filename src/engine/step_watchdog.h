// SPDX-License-Identifier: MIT
#pragma once
// Notices a call into the runner that does not return.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

#include "base/mailbox.h"
#include "engine/flights.h"

namespace cheetah {

// Unwinds the engine thread when its call returns after all: another thread owns the engine now. No
// std::exception, so that nothing on the way takes it for a failed step.
struct EngineTakenOver {};

// The engine thread marks where it is with one atomic write per call; a thread of its own looks at the mark now
// and then. Where the same call is still open after `limit`, it takes the engine over: then `on_stuck` runs on the
// watchdog's thread, and the engine thread, should it come back, finds out before it touches anything.
class StepWatchdog final : public RunnerGuard {
 public:
  StepWatchdog(std::chrono::milliseconds limit, std::function<void()> on_stuck);
  ~StepWatchdog() override { stop(); }
  void stop();  // waits for on_stuck; the guard goes on

  void entered() override { ++mark_; }
  void left() override;
  bool took_over() const { return mark_ == kTaken; }

 private:
  static constexpr uint64_t kTaken = ~uint64_t{0};
  void watch();

  const std::chrono::milliseconds limit_;
  const std::function<void()> on_stuck_;
  std::atomic<uint64_t> mark_ = 0;  // odd: inside a call
  Mailbox<int> stop_;               // closed: the end
  std::thread thread_;
};

}  // namespace cheetah
