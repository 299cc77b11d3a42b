// SPDX-License-Identifier: MIT
#pragma once
// Takes jobs from the prefill queue, as many as the worker wants and no more.
#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "base/mailbox.h"
#include "cluster/queue/job_queue.h"

namespace cheetah::cluster {

class JobPuller {
 public:
  // `deliver` is called on the puller's thread. The queue outlives it.
  JobPuller(JobQueue& queue, std::function<void(Delivery&&)> deliver);
  ~JobPuller();
  JobPuller(const JobPuller&) = delete;
  JobPuller& operator=(const JobPuller&) = delete;

  // `handled` of the jobs delivered so far have reached the worker, and it wants `wanted` more.
  void allow(uint64_t handled, int wanted);

 private:
  void run();

  JobQueue& queue_;
  std::function<void(Delivery&&)> deliver_;
  std::atomic<uint64_t> allowed_ = 0;  // jobs, counted from the start
  std::atomic<bool> stops_ = false;
  Mailbox<bool> bell_;
  std::thread thread_;
};

}  // namespace cheetah::cluster
