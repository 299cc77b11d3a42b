// SPDX-License-Identifier: MIT
#include "cluster/core/worker_roles.h"

#include <algorithm>
#include <utility>

namespace cheetah::cluster {

Heartbeat WorkerRoles::heartbeat() const {
  return {.role = self_.role, .state = self_.state, .epoch = self_.epoch, .load = load_};
}

void WorkerRoles::greet(WorkerId peer, WorkerStep& step) const {
  step.say(peer, Hello{self_});
  step.say(peer, heartbeat());
}

void WorkerRoles::load_is(const WorkerLoad& load, WorkerStep& step) {
  load_ = load;
  tell_peers(step);
}

void WorkerRoles::tell_peers(WorkerStep& step) const {
  for (const WorkerId peer : peers_.all_linked()) step.say(peer, heartbeat());
}

void WorkerRoles::set_state(WorkerState state, WorkerStep& step) {
  self_.state = state;
  step.want(Announce{self_});
  tell_peers(step);
}

void WorkerRoles::drain(Duration limit, WorkerStep& step) {
  leaving_ = true;
  flip_.reset();
  start_draining(limit, step);
}

void WorkerRoles::start_draining(Duration limit, WorkerStep& step) {
  drain_until_ = std::min(drain_until_, step.now + limit);
  if (self_.state != WorkerState::kDraining) set_state(WorkerState::kDraining, step);
}

bool WorkerRoles::drain_time_is_up(Time now) {
  if (now < drain_until_) return false;
  drain_until_ = Time::max();
  return true;
}

void WorkerRoles::flip(const FlipRole& message, WorkerStep& step) {
  // One that is far ahead would make every later flip look old.
  constexpr uint64_t kFarthestEpoch = 1000;
  const bool dwelt = !last_flip_ || step.now - *last_flip_ >= config_.min_dwell;
  const bool newer = message.epoch > self_.epoch && message.epoch - self_.epoch <= kFarthestEpoch &&
                     (!flip_ || message.epoch > flip_->epoch);
  if (!newer || !dwelt || leaving_ || message.role == Role::kRouter || !ready())
    return step.count(Counter::kFlipsRefused);
  flip_ = message;
  start_draining(config_.drain_limit, step);
}

void WorkerRoles::nothing_left(WorkerStep& step) {
  if (self_.state != WorkerState::kDraining) return;
  if (leaving_) {
    if (!std::exchange(drained_, true)) step.want(Drained{});
    return;
  }
  if (!flip_) return;
  drain_until_ = Time::max();
  self_.role = flip_->role;
  self_.epoch = flip_->epoch;
  flip_.reset();
  last_flip_ = step.now;
  step.count(Counter::kFlips);
  set_state(WorkerState::kStarting, step);
  step.want(WarmUp{self_.role});
}

void WorkerRoles::warmed_up(WorkerStep& step) {
  if (self_.state == WorkerState::kStarting) set_state(WorkerState::kReady, step);
}

}  // namespace cheetah::cluster
