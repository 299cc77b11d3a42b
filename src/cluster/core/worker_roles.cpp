// Coming, going and changing: drain, then leave or flip, warm up, serve.
#include <algorithm>
#include <vector>

#include "cluster/core/worker_state.h"

namespace cheetah::cluster {

void WorkerCore::State::on(const LoadMeasured& input) {
  load = input.load;
  tell_peers();
}

void WorkerCore::State::tell_peers() {
  for (const auto& [id, peer] : peers)
    if (peer.linked)
      say(id, Heartbeat{.role = self.role, .state = self.state, .epoch = self.epoch, .load = load});
}

void WorkerCore::State::set_state(WorkerState state) {
  self.state = state;
  want(Announce{self});
  tell_peers();
}

void WorkerCore::State::on(const DrainRequested& input) {
  leaving = true;
  flip.reset();
  start_draining(input.limit);
}

void WorkerCore::State::on_message(WorkerId, const Drain& message) { on(DrainRequested{message.limit}); }

void WorkerCore::State::start_draining(Duration limit) {
  drain_until = std::min(drain_until, now + limit);
  if (self.state != WorkerState::kDraining) set_state(WorkerState::kDraining);
}

// The time is up: the requests go on elsewhere, their routers have what was said so far.
void WorkerCore::State::hand_over() {
  std::vector<RequestKey> keys;
  for (const auto& [key, serving] : servings)
    if (!serving->cancelled) keys.push_back(key);
  for (const RequestKey key : keys) {
    count(Counter::kHandedOver);
    give_up(key, GiveUpReason::kDraining, "the worker drains");
  }
  keys.clear();
  for (const auto& [key, job] : jobs) keys.push_back(key);
  for (const RequestKey key : keys)
    stop_job(key, PrefillFailed{key, jobs.at(key)->job.reservation, "the worker drains"});
}

void WorkerCore::State::on_message(WorkerId, const FlipRole& message) {
  const bool dwelt = !ever_flipped || now - last_flip >= config.min_dwell;
  const bool newer = message.epoch > self.epoch && (!flip || message.epoch > flip->epoch);
  if (!newer || !dwelt || leaving || message.role == Role::kRouter || self.state != WorkerState::kReady)
    return count(Counter::kFlipsRefused);
  flip = message;
  start_draining(config.drain_limit);
}

void WorkerCore::State::go_on_if_idle() {
  if (self.state != WorkerState::kDraining || !idle()) return;
  if (leaving) {
    if (!drained) want(Drained{});
    drained = true;
    return;
  }
  if (!flip) return;
  drain_until = Time::max();
  self.role = flip->role;
  self.epoch = flip->epoch;
  flip.reset();
  last_flip = now;
  ever_flipped = true;
  count(Counter::kFlips);
  set_state(WorkerState::kStarting);
  want(WarmUp{self.role});
}

void WorkerCore::State::on(const WarmedUp&) {
  if (self.state == WorkerState::kStarting) set_state(WorkerState::kReady);
}

}  // namespace cheetah::cluster
