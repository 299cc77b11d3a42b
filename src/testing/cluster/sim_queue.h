// SPDX-License-Identifier: MIT
#pragma once
// The prefill queue of a simulation: at least once, by no means exactly once.
#include <cstdint>
#include <map>
#include <vector>

#include "cluster/core/worker_ports.h"
#include "testing/cluster/simulation.h"

namespace cheetah::cluster::simulation {

class SimCluster;

class SimQueue {
 public:
  explicit SimQueue(SimCluster& cluster) : cluster_(cluster) {}

  void execute(const PushJob& output);
  void execute(const AckJob& output);
  void execute(const NackJob& output);
  void execute(const ExtendJob& output);
  void set_up(bool up);
  bool up() const { return up_; }
  void pump();  // gives what waits to free workers
  int64_t num_jobs() const { return static_cast<int64_t>(jobs_.size()); }
  bool empty_of_waiting() const { return num_waiting_ == 0; }

 private:
  struct Job {
    PrefillJob job;
    int deliveries = 0;
    DeliveryId last{};
    bool out = false;
    uint64_t extended = 0;
  };
  void deliver(uint64_t number, Job& job);
  void watch(uint64_t number, DeliveryId delivery, uint64_t extended);
  void drop(uint64_t number);

  SimCluster& cluster_;
  bool up_ = true;
  uint64_t next_job_ = 1, next_delivery_ = 1;
  int64_t num_waiting_ = 0;
  std::map<uint64_t, Job> jobs_;
  std::map<DeliveryId, uint64_t> deliveries_;
};

}  // namespace cheetah::cluster::simulation
