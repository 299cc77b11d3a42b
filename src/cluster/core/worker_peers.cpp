// SPDX-License-Identifier: MIT
#include "cluster/core/worker_peers.h"

#include <utility>

namespace cheetah::cluster {

void WorkerPeers::up(WorkerId id) {
  Peer& peer = peers_[id];
  peer.descriptor.id = id;
  peer.linked = true;
  peer.pressed = false;
}

bool WorkerPeers::down(WorkerId id) {
  const auto peer = peers_.find(id);
  if (peer == peers_.end() || !peer->second.linked) return false;
  peer->second.linked = false;
  peer->second.descriptor.state = WorkerState::kStarting;
  return true;
}

// An id is one life: it does not come back.
void WorkerPeers::forget_if_gone(WorkerId id) {
  const auto peer = peers_.find(id);
  if (peer != peers_.end() && !peer->second.linked && !peer->second.registered) peers_.erase(peer);
}

void WorkerPeers::registry_has(const WorkerDescriptor& descriptor) {
  Peer& peer = peers_[descriptor.id];
  peer.registered = true;
  peer.left = false;
  if (!peer.introduced) peer.descriptor = descriptor;
}

void WorkerPeers::registry_lost(WorkerId id) {
  const auto peer = peers_.find(id);
  if (peer == peers_.end()) return;
  peer->second.left = std::exchange(peer->second.registered, false);
  forget_if_gone(id);
}

void WorkerPeers::hear(WorkerId from, const Hello& message) {
  if (message.descriptor.id != from) return;  // speaks for another: not believed
  Peer& peer = peers_[from];
  if (peer.introduced && message.descriptor.epoch < peer.descriptor.epoch) return;  // from before a flip
  peer.introduced = true;
  peer.descriptor = message.descriptor;
}

void WorkerPeers::hear(WorkerId from, const Heartbeat& message) {
  Peer& peer = peers_[from];
  peer.load = message.load;
  if (peer.introduced && message.epoch < peer.descriptor.epoch) return;
  peer.descriptor.role = message.role;
  peer.descriptor.state = message.state;
  peer.descriptor.epoch = message.epoch;
}

bool WorkerPeers::linked(WorkerId id) const {
  if (id == self_) return true;
  const auto peer = peers_.find(id);
  return peer != peers_.end() && peer->second.linked;
}

bool WorkerPeers::pressed(WorkerId id) const {
  const auto peer = peers_.find(id);
  return peer != peers_.end() && peer->second.pressed;
}

std::vector<WorkerId> WorkerPeers::all_linked() const {
  std::vector<WorkerId> ids;
  for (const auto& [id, peer] : peers_)
    if (peer.linked) ids.push_back(id);
  return ids;
}

std::optional<WorkerId> WorkerPeers::prefill_worker(const std::string& model, WorkerId hint) const {
  std::optional<WorkerId> best;
  int64_t least = 0;
  for (const auto& [id, peer] : peers_) {
    const Role role = peer.descriptor.role;
    if (!peer.linked || peer.left || peer.descriptor.state != WorkerState::kReady || id == self_) continue;
    if (role != Role::kPrefill && role != Role::kBoth) continue;
    const std::string& its = peer.descriptor.kv.model;
    if (!its.empty() && its != model) continue;  // its pages are of no use here
    if (id == hint) return id;
    if (best && peer.load.prefill_tokens >= least) continue;
    best = id;
    least = peer.load.prefill_tokens;
  }
  return best;
}

}  // namespace cheetah::cluster
