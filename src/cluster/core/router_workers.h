// SPDX-License-Identifier: MIT
#pragma once
// The workers a router knows: links, heartbeats and the registry. A worker is lost when its link is, or when it
// has been silent for too long; the end of its lease alone only keeps new requests away.
#include <optional>

#include "cluster/core/router_config.h"
#include "cluster/core/router_step.h"
#include "cluster/core/routing.h"

namespace cheetah::cluster {

class RouterWorkers {
 public:
  RouterWorkers(const RouterConfig& config, Routing& routing) : config_(config), routing_(routing) {}

  // True: this process stood still before this step. No worker is silent for what was not read meanwhile.
  bool notice_standstill(Time now);
  void heard(WorkerId from, Time now);
  void up(WorkerId id, RouterStep& step);
  void down(WorkerId id, RouterStep& step);
  void registry_has(const std::vector<WorkerDescriptor>& all, RouterStep& step);
  void registry_has(const WorkerDescriptor& descriptor, RouterStep& step);
  void registry_lost(WorkerId id);
  void hear(WorkerId from, const Hello& message, RouterStep& step);
  void hear(WorkerId from, const Heartbeat& message, RouterStep& step);
  void hear(WorkerId from, const CordonNews& message);
  // A worker that has become ready, or ready in another role, ends what the policies hold against its phase.
  void tell_if_ready(WorkerId id);
  void look_for_silent(RouterStep& step);
  // After what it lost was dealt with.
  void forget_if_gone(WorkerId id);

  void drains(WorkerId id) {
    workers_[id].descriptor.state = WorkerState::kDraining;
  }  // until it says otherwise
  // For a while it gets nothing new, so that one that comes and goes does not take everything down with it.
  void hold_off(WorkerId id, Time now) { workers_[id].held_off_until = now + config_.hold_off; }
  // A request was sent there, or has left.
  void add_work(WorkerId id, const GenerationRequest& request);
  void remove_work(WorkerId id, const GenerationRequest& request);

  bool knows(WorkerId id) const { return workers_.count(id) > 0; }
  bool linked(WorkerId id) const;
  const KnownWorkers& all() const { return workers_; }
  Time next_look() const;

 private:
  void lose(WorkerId id, const char* why, RouterStep& step);

  const RouterConfig& config_;
  Routing& routing_;
  KnownWorkers workers_;
  std::optional<Time> last_look_;
};

}  // namespace cheetah::cluster
