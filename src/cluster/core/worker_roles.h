// SPDX-License-Identifier: MIT
#pragma once
// What this worker is: it comes, goes and changes. Drain, then leave or flip, warm up, serve.
#include <optional>

#include "cluster/core/worker_config.h"
#include "cluster/core/worker_peers.h"
#include "cluster/core/worker_step.h"

namespace cheetah::cluster {

class WorkerRoles {
 public:
  WorkerRoles(const WorkerConfig& config, const WorkerPeers& peers)
      : config_(config), peers_(peers), self_(config.descriptor) {}

  void greet(WorkerId peer, WorkerStep& step) const;
  void load_is(const WorkerLoad& load, WorkerStep& step);
  void drain(Duration limit, WorkerStep& step);
  void flip(const FlipRole& message, WorkerStep& step);
  // An operator's order, which stands until another: also where this worker still starts or takes a new role.
  void cordon(const CordonOrdered& order, WorkerStep& step);
  void warmed_up(WorkerStep& step);
  // True once: the time to drain is up, what is left goes to others.
  bool drain_time_is_up(Time now);
  // Nothing is left to do: leaves or takes its new role, where it drains for that.
  void nothing_left(WorkerStep& step);

  const WorkerDescriptor& self() const { return self_; }
  bool ready() const { return self_.state == WorkerState::kReady; }
  bool decodes() const { return self_.role == Role::kDecode || self_.role == Role::kBoth; }
  bool prefills() const { return ready() && (self_.role == Role::kPrefill || self_.role == Role::kBoth); }
  Time next_wake() const { return drain_until_; }

 private:
  void start_draining(Duration limit, WorkerStep& step);
  void set_state(WorkerState state, WorkerStep& step);
  void tell_peers(WorkerStep& step) const;
  void set_cordon(Cordon cordon, WorkerStep& step);
  void drain_for_cordon(WorkerStep& step);
  Heartbeat heartbeat() const;

  const WorkerConfig& config_;
  const WorkerPeers& peers_;
  WorkerDescriptor self_;
  WorkerLoad load_;
  bool leaving_ = false, drained_ = false;
  Cordon cordon_ = Cordon::kNone;
  std::optional<Duration> hand_over_after_;  // of the cordon
  std::optional<FlipRole> flip_;
  Time drain_until_ = Time::max();
  std::optional<Time> last_flip_;
};

}  // namespace cheetah::cluster
