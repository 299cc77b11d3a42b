// SPDX-License-Identifier: MIT
#pragma once
// A thread for what would keep the node's own from its messages: compiling grammars, warming up, changing
// pages.
#include <functional>
#include <thread>
#include <vector>

#include "base/mailbox.h"

namespace cheetah::cluster {

class BackgroundThread {
 public:
  using Work = std::function<void()>;

  BackgroundThread() : thread_([this] { run(); }) {}
  ~BackgroundThread() {  // what is queued is done first
    inbox_.close();
    thread_.join();
  }
  BackgroundThread(const BackgroundThread&) = delete;
  BackgroundThread& operator=(const BackgroundThread&) = delete;

  void post(Work work) { inbox_.post(std::move(work)); }

 private:
  void run() {
    std::vector<Work> batch;
    while (inbox_.wait()) {
      inbox_.take_all(batch);
      for (Work& work : batch) work();
    }
  }

  Mailbox<Work> inbox_;
  std::thread thread_;  // last: starts when the box exists
};

}  // namespace cheetah::cluster
