// SPDX-License-Identifier: MIT
#pragma once
// The prefill queue of a cluster whose nodes are threads of one process.
#include <map>
#include <memory>

#include "base/published.h"
#include "cluster/queue/job_table.h"
#include "cluster/queue/wake_up.h"

namespace cheetah::cluster {

// What the nodes share, and the hand that breaks it.
class JobStore {
 public:
  explicit JobStore(JobQueueConfig config = {});
  void set_up(bool up);

 private:
  friend class InProcessJobQueue;
  struct State {
    JobTable table;
    ServiceState service;
    std::map<int64_t, WakeUp*> waiters;
    int64_t next_waiter = 1;
  };
  // The lock is held while waiters are woken, which only posts.
  static void wake_all(State& state);

  mutable Published<State> state_;
};

class InProcessJobQueue final : public JobQueue {
 public:
  explicit InProcessJobQueue(std::shared_ptr<JobStore> store);
  ~InProcessJobQueue() override;

  void push(Job job, PushCallback done) override;
  std::optional<Delivery> pull(std::chrono::milliseconds wait) override;
  void wake() override { wake_up_.ring_by_hand(); }
  void ack(DeliveryTag tag) override;
  void nack(DeliveryTag tag) override;
  void extend(DeliveryTag tag) override;
  std::optional<int64_t> depth() override;
  ServiceState state() const override;

 private:
  std::shared_ptr<JobStore> store_;  // with every other node
  WakeUp wake_up_;
  int64_t waiter_;
};

}  // namespace cheetah::cluster
