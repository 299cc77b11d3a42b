// SPDX-License-Identifier: MIT
#include "engine/step_watchdog.h"

#include <algorithm>
#include <utility>

#include "base/time.h"

namespace cheetah {

StepWatchdog::StepWatchdog(std::chrono::milliseconds limit, std::function<void()> on_stuck)
    : limit_(limit), on_stuck_(std::move(on_stuck)), thread_([this] { watch(); }) {}

void StepWatchdog::stop() {
  stop_.close();
  if (thread_.joinable()) thread_.join();
}

void StepWatchdog::left() {
  uint64_t mark = mark_;
  if (mark == kTaken || !mark_.compare_exchange_strong(mark, mark + 1)) throw EngineTakenOver{};
}

void StepWatchdog::watch() {
  const auto period = std::max(limit_ / 8, std::chrono::milliseconds(1));
  uint64_t seen = 0;
  SteadyTime since = SteadyClock::now();
  while (!stop_.closed()) {
    stop_.wait_until(SteadyClock::now() + period);
    uint64_t mark = mark_;
    const SteadyTime now = SteadyClock::now();
    if (mark != std::exchange(seen, mark)) since = now;
    if (mark % 2 == 0 || now - since < limit_) continue;
    if (mark_.compare_exchange_strong(mark, kTaken)) return on_stuck_();
  }
}

}  // namespace cheetah
