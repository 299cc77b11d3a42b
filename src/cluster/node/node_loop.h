// SPDX-License-Identifier: MIT
#pragma once
// The thread of a node. It owns the cores and everything they decide on; all others post work to it.
#include <functional>
#include <thread>
#include <vector>

#include "base/mailbox.h"
#include "cluster/types.h"

namespace cheetah::cluster {

class NodeLoop {
 public:
  using Work = std::function<void()>;

  ~NodeLoop() { stop(); }
  // From any thread. After stop() nothing is taken.
  void post(Work work) { inbox_.post(std::move(work)); }

  // Starts the thread: it does what was posted, then calls `run_once`, which says when it wants to be called
  // again at the latest.
  void start(std::function<Time(Time now)> run_once);
  // What was posted before is done first. Returns when the thread has ended.
  void stop();

 private:
  void run();

  Mailbox<Work> inbox_;
  std::function<Time(Time)> run_once_;
  std::vector<Work> batch_;
  std::thread thread_;
};

}  // namespace cheetah::cluster
