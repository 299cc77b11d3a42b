// SPDX-License-Identifier: MIT
#pragma once
// A router's core for tests of single transitions.
#include <optional>
#include <utility>
#include <vector>

#include "cluster/core/core_probe.h"

namespace cheetah::cluster {

struct Router : CoreProbe<RouterCore, RouterInput, RouterOutput> {
  explicit Router(LeastLoaded& policy, RouterConfig config = {}) : CoreProbe(with_self(config), policy) {}
  static RouterConfig with_self(RouterConfig config) {
    config.self = kRouterR;
    return config;
  }
  void join(WorkerId id, Role role = Role::kDecode) {
    tell(PeerUp{id});
    hear(id, Hello{ready_worker(id, role)});
  }
  void ask(int n = 1, bool race = false, std::optional<Time> deadline = {}) {
    ClientRequest client{.uid = kUid, .request = request_of(8, n), .race = race};
    client.request.deadline = deadline;
    tell(std::move(client));
  }
  void token(WorkerId from, uint32_t attempt, uint64_t sequence, int64_t index, GenerationEvent event) {
    hear(from,
        Tokens{
            .key = key_of(attempt), .sequence = sequence, .first_index = index, .event = std::move(event)});
  }
  void beat(WorkerId from) { hear(from, Heartbeat{.role = Role::kDecode, .epoch = 1}); }
  // As pass(), with workers that are heard of all the time.
  void pass_with(const std::vector<WorkerId>& alive, Duration time) {
    std::vector<RouterOutput> all;
    for (const Time until = now + time; now < until;) {
      now += milliseconds(200);
      for (const WorkerId id : alive) {
        beat(id);
        all.insert(all.end(), out.begin(), out.end());
      }
    }
    out = std::move(all);
  }
  std::vector<int32_t> tokens() const {
    std::vector<int32_t> ids;
    for (const Emit& emit : wanted<Emit>())
      for (const GeneratedToken& token : emit.event.tokens) ids.push_back(token.id);
    return ids;
  }
  int ends() const {
    int count = 0;
    for (const Emit& emit : wanted<Emit>()) count += emit.event.done ? 1 : 0;
    return count;
  }
};

}  // namespace cheetah::cluster
