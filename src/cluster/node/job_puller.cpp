// SPDX-License-Identifier: MIT
#include "cluster/node/job_puller.h"

#include <utility>
#include <vector>

namespace cheetah::cluster {

JobPuller::JobPuller(JobQueue& queue, std::function<void(Delivery&&)> deliver)
    : queue_(queue), deliver_(std::move(deliver)), thread_([this] { run(); }) {}

JobPuller::~JobPuller() {
  stops_ = true;
  allowed_ = 0;
  bell_.close();
  queue_.wake();
  thread_.join();
}

void JobPuller::allow(uint64_t handled, int wanted) {
  const uint64_t now = handled + static_cast<uint64_t>(std::max(0, wanted));
  const uint64_t before = allowed_.exchange(now);
  if (now > before) bell_.post(true);
  if (now < before) queue_.wake();  // a pull that waits may not be wanted any more
}

void JobPuller::run() {
  constexpr std::chrono::milliseconds kWait{1000};
  uint64_t pulled = 0;
  std::vector<bool> rings;
  while (!stops_) {
    if (pulled >= allowed_) {
      if (!bell_.wait()) return;
      bell_.take_all(rings);
      continue;
    }
    auto delivery = queue_.pull(kWait);
    if (!delivery) continue;
    ++pulled;
    deliver_(std::move(*delivery));
  }
}

}  // namespace cheetah::cluster
