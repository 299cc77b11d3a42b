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
  if (cordon_ != Cordon::kNone) step.say(peer, CordonNews{cordon_});
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

void WorkerRoles::set_cordon(Cordon cordon, WorkerStep& step) {
  if (cordon == std::exchange(cordon_, cordon)) return;
  for (const WorkerId peer : peers_.all_linked()) step.say(peer, CordonNews{cordon});
}

void WorkerRoles::cordon(const CordonOrdered& order, WorkerStep& step) {
  hand_over_after_ = order.cordoned ? order.limit : std::nullopt;
  if (!order.cordoned) {
    set_cordon(Cordon::kNone, step);
    if (leaving_ || flip_ || self_.state != WorkerState::kDraining) return;
    drain_until_ = Time::max();
    return set_state(WorkerState::kReady, step);
  }
  if (!order.limit && !leaving_ && !flip_) drain_until_ = Time::max();  // a drain became a mere cordon
  set_cordon(order.limit ? Cordon::kDraining : Cordon::kCordoned, step);
  if (self_.state != WorkerState::kStarting && !flip_) drain_for_cordon(step);
}

void WorkerRoles::drain_for_cordon(WorkerStep& step) {
  start_draining(hand_over_after_.value_or(Duration::max()), step);
}

void WorkerRoles::drain(Duration limit, WorkerStep& step) {
  leaving_ = true;
  flip_.reset();
  start_draining(limit, step);
}

void WorkerRoles::start_draining(Duration limit, WorkerStep& step) {
  if (limit != Duration::max()) drain_until_ = std::min(drain_until_, step.now + limit);
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
  if (!flip_) {
    if (cordon_ == Cordon::kDraining) set_cordon(Cordon::kDrained, step);
    return;
  }
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
  if (self_.state != WorkerState::kStarting) return;
  if (cordon_ == Cordon::kNone) return set_state(WorkerState::kReady, step);
  drain_for_cordon(step);
}

}  // namespace cheetah::cluster
