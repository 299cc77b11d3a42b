// SPDX-License-Identifier: MIT
#include "cluster/node/peer_table.h"

#include "base/format.h"
#include "cluster/registry/keys.h"

namespace cheetah::cluster {
namespace {

bool decodes(Role role) { return role == Role::kDecode || role == Role::kBoth; }
bool prefills(Role role) { return role == Role::kPrefill || role == Role::kBoth; }

}  // namespace

PeerTable::PeerTable(Mesh& mesh, WorkerId self, Role role, bool takes_clients)
    : mesh_(mesh), self_(self), role_(role), takes_clients_(takes_clients) {}

// Routers talk to everybody, prefill workers to decode workers. A decode worker may have clients of its
// own, which is not visible in its role: it links to its equals.
bool PeerTable::useful(const WorkerDescriptor& descriptor) const {
  if (descriptor.id == self_) return false;
  const Role other = descriptor.role;
  if (role_ == Role::kRouter || other == Role::kRouter) return true;
  if (takes_clients_ || (decodes(role_) && decodes(other))) return true;
  return (prefills(role_) && decodes(other)) || (decodes(role_) && prefills(other));
}

void PeerTable::update(WorkerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  KnownPeer& peer = found->second;
  const bool wanted = peer.registered && useful(peer.descriptor);
  if (wanted) mesh_.connect(id, peer.descriptor.host, peer.descriptor.port);  // costs nothing the second time
  if (peer.wanted && !wanted && !peer.linked) mesh_.disconnect(id);
  peer.wanted = wanted || (peer.wanted && peer.linked);
  if (!peer.registered && !peer.linked) peers_.erase(found);
}

void PeerTable::put(const WorkerDescriptor& descriptor) {
  if (descriptor.id == self_) return;
  KnownPeer& peer = peers_[descriptor.id];
  peer.descriptor = descriptor;
  peer.registered = true;
  update(descriptor.id);
}

void PeerTable::heard(const WorkerDescriptor& descriptor) {
  const auto found = peers_.find(descriptor.id);
  if (found != peers_.end() && descriptor.epoch >= found->second.descriptor.epoch)
    found->second.descriptor = descriptor;
}

void PeerTable::gone(WorkerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  found->second.registered = false;
  update(id);
}

void PeerTable::up(WorkerId id) { peers_[id].linked = true; }

void PeerTable::down(WorkerId id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  found->second.linked = false;
  update(id);
}

void PeerTable::set_role(Role role) {
  role_ = role;
  for (auto at = peers_.begin(); at != peers_.end();) update((at++)->first);
}

const KnownPeer* PeerTable::find(WorkerId id) const {
  const auto found = peers_.find(id);
  return found == peers_.end() ? nullptr : &found->second;
}

std::string PeerTable::name_of(WorkerId id) const {
  const KnownPeer* peer = find(id);
  if (peer && !peer->descriptor.name.empty()) return peer->descriptor.name;
  return format("{:016x}", static_cast<uint64_t>(id));
}

std::string PeerTable::with_names(const std::string& what) const {
  constexpr size_t kIdDigits = 16;
  if (what.size() < kIdDigits) return what;
  const size_t at = what.size() - kIdDigits;
  const auto id = worker_in_key(format("{}{}", kWorkersPrefix, what.substr(at)));
  return id ? what.substr(0, at) + name_of(*id) : what;
}

}  // namespace cheetah::cluster
