// SPDX-License-Identifier: MIT
#pragma once
// What a router has to know and others can tell it: what is in the caches of its workers, and what tenants have taken of
// their quotas at the other routers. So one that starts knows within a moment what the one that died knew.
#include <functional>
#include <unordered_set>
#include <vector>

#include "cluster/node/peer_table.h"
#include "cluster/policy/policy_routing.h"
#include "cluster/wire/message.h"
#include "engine/kv/kv_transfer.h"

namespace cheetah::cluster {

// Both sides of it. Belongs to the node's thread.
class Sharing {
 public:
  struct Setting {
    PolicyRouting* routing = nullptr;  // with clients
    bool has_cache = false;            // with an engine
    const PeerTable& peers;
    std::function<void(WorkerId, const Message&)> send;
  };
  explicit Sharing(Setting setting) : setting_(std::move(setting)) {}

  // True: it was for nobody else. `next_change`: the number of the next change of this node's cache.
  bool hear(WorkerId from, const Message& message, uint64_t next_change, Time now);
  void cache_changed(const std::vector<PrefixChange>& changes);
  void beat(Time now);

 private:
  void greet(WorkerId from, const WorkerDescriptor& descriptor);

  Setting setting_;
  std::unordered_set<uint64_t> cached_;  // blocks of this node's cache
  Time asks_again_{};                    // workers of whose cache something was missed
};

}  // namespace cheetah::cluster
