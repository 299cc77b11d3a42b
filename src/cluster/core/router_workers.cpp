// Who is there: links, heartbeats and the registry. A worker is lost when its link is, or when it has been
// silent for too long; the end of its lease alone only keeps new requests away.
#include <set>
#include <vector>

#include "cluster/core/router_state.h"

namespace cheetah::cluster {

void RouterCore::State::on(PeerMessage& input) {
  const auto known = workers.find(input.from);
  if (known != workers.end()) {
    known->second.heard_at = now;
    known->second.silent = false;
  }
  std::visit([&](auto& message) { on_message(input.from, message); }, input.message);
}

void RouterCore::State::on(const PeerUp& input) {
  KnownWorker& worker = workers[input.peer];
  worker.descriptor.id = input.peer;
  worker.linked = true;
  worker.silent = false;
  worker.heard_at = now;
  place_waiting();
}

void RouterCore::State::on(const PeerDown& input) {
  const auto worker = workers.find(input.peer);
  if (worker == workers.end() || !worker->second.linked) return;
  worker->second.linked = false;
  if (worker->second.described) lose_worker(input.peer, "its link is down");
  forget_if_gone(input.peer);
}

void RouterCore::State::on(const RegistrySnapshot& input) {
  std::set<WorkerId> there;
  for (const WorkerDescriptor& worker : input.workers) {
    there.insert(worker.id);
    on(RegistryPut{worker});
  }
  std::vector<WorkerId> gone;
  for (const auto& [id, worker] : workers)
    if (worker.registered && there.count(id) == 0) gone.push_back(id);
  for (const WorkerId id : gone) on(RegistryGone{id});
}

void RouterCore::State::on(const RegistryPut& input) {
  if (input.worker.role == Role::kRouter) return;
  KnownWorker& worker = workers[input.worker.id];
  worker.registered = true;
  worker.left = false;
  describe_worker(input.worker);
  place_waiting();
}

void RouterCore::State::on(const RegistryGone& input) {
  const auto worker = workers.find(input.worker);
  if (worker == workers.end()) return;
  worker->second.left = worker->second.registered;
  worker->second.registered = false;
  forget_if_gone(input.worker);
}

void RouterCore::State::on_message(WorkerId from, const Hello& message) {
  if (message.descriptor.id != from) return;  // speaks for another: not believed
  if (message.descriptor.role == Role::kRouter) return;
  describe_worker(message.descriptor);
  place_waiting();
}

void RouterCore::State::on_message(WorkerId from, const Heartbeat& message) {
  const auto known = workers.find(from);
  if (known == workers.end()) return;
  KnownWorker& worker = known->second;
  worker.described = true;
  worker.load = message.load;
  worker.load_at = now;
  if (message.epoch < worker.descriptor.epoch) return;
  worker.descriptor.role = message.role;
  worker.descriptor.state = message.state;
  worker.descriptor.epoch = message.epoch;
  if (!waiting.empty()) place_waiting();
}

void RouterCore::State::describe_worker(const WorkerDescriptor& descriptor) {
  KnownWorker& worker = workers[descriptor.id];
  worker.described = true;
  if (descriptor.epoch < worker.descriptor.epoch) return;  // from before a flip
  worker.descriptor = descriptor;
}

// Its requests go on elsewhere; for a while it gets nothing new, so that one that comes and goes does not
// take everything down with it.
void RouterCore::State::lose_worker(WorkerId id, const char* why) {
  count(Counter::kWorkersLost);
  KnownWorker& worker = workers[id];
  worker.held_off_until = now + config.hold_off;
  std::vector<std::pair<RequestUid, Attempt>> legs;
  for (const auto& [uid, request] : requests)
    for (const Leg& leg : request->legs)
      if (leg.worker == id) legs.emplace_back(uid, leg.attempt);
  for (const auto& [uid, attempt] : legs) {
    const auto request = requests.find(uid);
    if (request == requests.end()) continue;
    if (worker.linked) say(id, Cancel{{uid, attempt}});  // should it come back to life
    lose_leg(*request->second, attempt, true, why);
  }
}

void RouterCore::State::forget_if_gone(WorkerId id) {
  const auto worker = workers.find(id);
  if (worker == workers.end() || worker->second.linked || worker->second.registered) return;
  routing.forget(id);
  workers.erase(worker);
}

void RouterCore::State::look_for_silent_workers() {
  std::vector<WorkerId> silent;
  for (const auto& [id, worker] : workers)
    if (worker.linked && worker.described && !worker.silent &&
        now - worker.heard_at >= config.heartbeat_limit)
      silent.push_back(id);
  for (const WorkerId id : silent) {
    workers[id].silent = true;
    lose_worker(id, "it has been silent for too long");
  }
}

}  // namespace cheetah::cluster
