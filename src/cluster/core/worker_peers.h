// SPDX-License-Identifier: MIT
#pragma once
// The processes a worker knows, and what they say about themselves.
#include <map>
#include <optional>
#include <vector>

#include "cluster/core/worker_ports.h"

namespace cheetah::cluster {

struct Peer {
  WorkerDescriptor descriptor;
  WorkerLoad load;
  bool linked = false;
  bool pressed = false;
  bool registered = false;  // the registry has it
  bool left = false;        // it had it: it gets nothing new
  // What it says over its link wins over the registry, which anybody with access to it can write.
  bool introduced = false;  // by its own Hello
};

class WorkerPeers {
 public:
  explicit WorkerPeers(WorkerId self) : self_(self) {}

  void up(WorkerId peer);
  // False: it was not linked.
  bool down(WorkerId peer);
  void forget_if_gone(WorkerId peer);
  void press(WorkerId peer, bool pressed) { peers_[peer].pressed = pressed; }
  void registry_has(const WorkerDescriptor& descriptor);
  void registry_lost(WorkerId peer);
  void hear(WorkerId from, const Hello& message);
  void hear(WorkerId from, const Heartbeat& message);

  bool linked(WorkerId peer) const;  // a worker is always linked to itself
  bool pressed(WorkerId peer) const;
  std::vector<WorkerId> all_linked() const;
  int64_t size() const { return static_cast<int64_t>(peers_.size()); }
  // A prefill worker of this model with a link: `hint` if it is one, else the least busy.
  std::optional<WorkerId> prefill_worker(const std::string& model, WorkerId hint) const;

 private:
  WorkerId self_;
  std::map<WorkerId, Peer> peers_;
};

}  // namespace cheetah::cluster
