// SPDX-License-Identifier: MIT
#include "cluster/node/node_loop.h"

#include <algorithm>
#include <utility>

namespace cheetah::cluster {

void NodeLoop::start(std::function<Time(Time)> run_once) {
  run_once_ = std::move(run_once);
  thread_ = std::thread([this] { run(); });
}

void NodeLoop::stop() {
  inbox_.close();
  if (thread_.joinable()) thread_.join();
}

void NodeLoop::run() {
  // A wake-up that was forgotten costs this much, no more.
  constexpr Duration kLongestSleep = std::chrono::seconds(1);
  while (true) {
    const Time now = std::chrono::steady_clock::now();
    const Time wake = std::min(run_once_(now), now + kLongestSleep);
    if (!inbox_.wait_until(wake) && inbox_.closed()) return;
    inbox_.take_all(batch_);
    for (Work& work : batch_) work();
  }
}

}  // namespace cheetah::cluster
