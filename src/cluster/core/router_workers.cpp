// SPDX-License-Identifier: MIT
#include "cluster/core/router_workers.h"

#include <algorithm>
#include <set>
#include <utility>

namespace cheetah::cluster {

bool RouterWorkers::notice_standstill(Time now) {
  const bool stood_still = last_look_ && now - *last_look_ > config_.heartbeat_limit / 2;
  last_look_ = now;
  if (!stood_still) return false;
  for (auto& [id, worker] : workers_)
    worker.heard_at = std::max(worker.heard_at, now - config_.heartbeat_limit / 2);
  return true;
}

// A regular look tells a silent worker from a router that stood still.
Time RouterWorkers::next_look() const {
  return last_look_ ? *last_look_ + config_.heartbeat_limit / 4 : Time::max();
}

void RouterWorkers::heard(WorkerId from, Time now) {
  const auto known = workers_.find(from);
  if (known == workers_.end()) return;
  known->second.heard_at = now;
  known->second.silent = false;
}

void RouterWorkers::tell_if_ready(WorkerId id) {
  const auto known = workers_.find(id);
  if (known == workers_.end()) return;
  KnownWorker& worker = known->second;
  const bool ready = worker.described && worker.reachable();
  const std::optional<Role> role = ready ? std::optional(worker.descriptor.role) : std::nullopt;
  if (role != std::exchange(worker.ready_as, role) && role) routing_.worker_ready(worker.descriptor);
}

void RouterWorkers::up(WorkerId id, RouterStep& step) {
  KnownWorker& worker = workers_[id];
  worker.descriptor.id = id;
  worker.linked = true;
  worker.silent = false;
  worker.cordon = Cordon::kNone;  // until it says otherwise
  worker.heard_at = step.now;
  tell_if_ready(id);
  step.workers_changed = true;
}

void RouterWorkers::down(WorkerId id, RouterStep& step) {
  const auto worker = workers_.find(id);
  if (worker == workers_.end() || !worker->second.linked) return;
  worker->second.linked = false;
  tell_if_ready(id);
  if (worker->second.described)
    lose(id, "its link is down", step);
  else
    forget_if_gone(id);
}

void RouterWorkers::lose(WorkerId id, const char* why, RouterStep& step) {
  step.count(Counter::kWorkersLost);
  hold_off(id, step.now);
  step.lost.push_back({id, why});
}

void RouterWorkers::registry_has(const std::vector<WorkerDescriptor>& all, RouterStep& step) {
  std::set<WorkerId> there;
  for (const WorkerDescriptor& worker : all) {
    there.insert(worker.id);
    registry_has(worker, step);
  }
  std::vector<WorkerId> gone;
  for (const auto& [id, worker] : workers_)
    if (worker.registered && there.count(id) == 0) gone.push_back(id);
  for (const WorkerId id : gone) registry_lost(id);
}

void RouterWorkers::registry_has(const WorkerDescriptor& descriptor, RouterStep& step) {
  if (descriptor.role == Role::kRouter) return;
  KnownWorker& worker = workers_[descriptor.id];
  worker.registered = true;
  worker.left = false;
  worker.described = true;
  step.workers_changed = true;
  if (worker.introduced) return tell_if_ready(descriptor.id);
  const WorkerDescriptor own = std::exchange(worker.descriptor, descriptor);
  if (worker.own_word) {
    worker.descriptor.role = own.role;
    worker.descriptor.state = own.state;
    worker.descriptor.epoch = own.epoch;
  }
  tell_if_ready(descriptor.id);
}

void RouterWorkers::registry_lost(WorkerId id) {
  const auto worker = workers_.find(id);
  if (worker == workers_.end()) return;
  worker->second.left = worker->second.registered;
  worker->second.registered = false;
  tell_if_ready(id);
  forget_if_gone(id);
}

void RouterWorkers::hear(WorkerId from, const Hello& message, RouterStep& step) {
  if (message.descriptor.id != from) return;  // speaks for another: not believed
  if (message.descriptor.role == Role::kRouter) return;
  KnownWorker& worker = workers_[from];
  if (worker.own_word && message.descriptor.epoch < worker.descriptor.epoch) return;  // from before a flip
  worker.described = worker.introduced = worker.own_word = true;
  worker.descriptor = message.descriptor;
  step.workers_changed = true;
}

void RouterWorkers::hear(WorkerId from, const Heartbeat& message, RouterStep& step) {
  const auto known = workers_.find(from);
  if (known == workers_.end()) return;
  KnownWorker& worker = known->second;
  worker.described = true;
  worker.load = message.load;
  worker.load_at = step.now;
  if (worker.own_word && message.epoch < worker.descriptor.epoch) return;
  worker.own_word = true;
  worker.descriptor.role = message.role;
  worker.descriptor.state = message.state;
  worker.descriptor.epoch = message.epoch;
  step.workers_changed = true;
}

void RouterWorkers::hear(WorkerId from, const CordonNews& message) {
  const auto known = workers_.find(from);
  if (known != workers_.end()) known->second.cordon = message.cordon;
}

void RouterWorkers::forget_if_gone(WorkerId id) {
  const auto worker = workers_.find(id);
  if (worker == workers_.end() || worker->second.linked || worker->second.registered) return;
  routing_.forget(id);
  workers_.erase(worker);
}

void RouterWorkers::look_for_silent(RouterStep& step) {
  for (auto& [id, worker] : workers_) {
    const bool silent = worker.linked && worker.described && !worker.silent &&
                        step.now - worker.heard_at >= config_.heartbeat_limit;
    if (!silent) continue;
    worker.silent = true;
    tell_if_ready(id);
    lose(id, "it has been silent for too long", step);
  }
}

void RouterWorkers::add_work(WorkerId id, const GenerationRequest& request) {
  const auto known = workers_.find(id);
  if (known == workers_.end()) return;
  known->second.in_flight += request.best_of;
  known->second.in_flight_tokens += std::ssize(request.prompt);
}

void RouterWorkers::remove_work(WorkerId id, const GenerationRequest& request) {
  const auto known = workers_.find(id);
  if (known == workers_.end()) return;
  known->second.in_flight -= request.best_of;
  known->second.in_flight_tokens -= std::ssize(request.prompt);
}

bool RouterWorkers::linked(WorkerId id) const {
  const auto known = workers_.find(id);
  return known != workers_.end() && known->second.linked;
}

}  // namespace cheetah::cluster
