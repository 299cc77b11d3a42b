// Links between simulated processes, and the registry that tells them of each other.
#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cluster/core/simulation/sim_cluster.h"
#include "cluster/wire/codec.h"

namespace cheetah::cluster::simulation {

SimCluster::Link& SimCluster::link(WorkerId a, WorkerId b) { return links_[std::minmax(a, b)]; }

void SimCluster::link_up(WorkerId a, WorkerId b) {
  Link& one = link(a, b);
  SimNode* first = find(a);
  SimNode* second = find(b);
  if (one.up || !one.wanted || first == nullptr || second == nullptr) return;
  if (first->stopped() || second->stopped()) return link_later(a, b, milliseconds(200));
  if (world_.now() < one.told)
    return link_later(a, b, one.told - world_.now());  // both know the old one is down
  one.up = true;
  ++one.life;
  one.deaf[0] = one.deaf[1] = false;
  one.last[0] = one.last[1] = world_.now();
  first->tell_both(PeerUp{b});
  if (find(b) == second) second->tell_both(PeerUp{a});
}

void SimCluster::link_later(WorkerId a, WorkerId b, Duration delay) {
  world_.after(delay, [this, a, b] { link_up(a, b); });
}

// Both ends hear of it, not at the same time.
void SimCluster::link_down(WorkerId a, WorkerId b) {
  Link& one = link(a, b);
  if (!one.up) return;
  one.up = false;
  const uint64_t life = one.life;
  Duration latest{};
  for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
    const Duration delay = world_.between(0, 30);
    latest = std::max(latest, delay);
    on(self, delay, [this, self = self, peer = peer] {
      if (SimNode* node = find(self)) node->tell_both(PeerDown{peer});
    });
  }
  one.told = world_.now() + latest + milliseconds(1);
  world_.after(latest + world_.between(50, 250), [this, a, b, life] {
    if (link(a, b).life == life) link_up(a, b);
  });
}

void SimCluster::send(WorkerId from, WorkerId to, const Message& message) {
  if (from == to) {
    auto shared = std::make_shared<Message>(message);
    return on(to, Duration{}, [this, to, shared] {
      if (SimNode* node = find(to)) node->receive(to, std::move(*shared));
    });
  }
  Link& one = link(from, to);
  const int direction = from < to ? 0 : 1;
  if (!one.up || one.deaf[direction]) return;
  if (fault(rates_.drop, "a message is lost")) return;
  const bool late = fault(rates_.late, "a message comes late and out of order");
  Duration delay = world_.between(0.1, 2);
  if (late) {
    delay += world_.between(5, 120);
  } else {  // in order with all that is not late
    one.last[direction] = std::max(one.last[direction], world_.now() + delay);
    delay = one.last[direction] - world_.now();
  }
  deliver(from, to, message, delay);
  if (fault(rates_.twice, "a message comes twice")) deliver(from, to, message, delay + world_.between(0, 60));
}

void SimCluster::deliver(WorkerId from, WorkerId to, const Message& message, Duration delay) {
  auto shared = std::make_shared<Message>(through_codec_ ? decode(encode(message)) : message);
  const uint64_t life = link(from, to).life;
  on(to, delay, [this, from, to, shared, life] {
    const Link& one = link(from, to);
    SimNode* node = find(to);
    if (node == nullptr || !one.up || one.life != life) return;
    if (world_.logs() && !std::holds_alternative<Heartbeat>(*shared))
      world_.log(format("{} -> {}: {}", find(from) != nullptr ? find(from)->spec().name : "?",
                        node->spec().name, message_name(*shared)));
    node->receive(from, std::move(*shared));
  });
}

void SimCluster::announce(const WorkerDescriptor& descriptor) {
  registry_[descriptor.id] = descriptor;
  if (registry_up_)
    registry_tell([descriptor](SimNode& node) { node.registry_says(RegistryPut{descriptor}); });
}

void SimCluster::registry_tell(const std::function<void(SimNode&)>& what) {
  std::vector<WorkerId> ids;
  for (const auto& [id, node] : nodes_) ids.push_back(id);
  for (const WorkerId id : ids)
    on(id, world_.between(1, 40), [this, id, what] {
      if (SimNode* node = find(id)) what(*node);
    });
}

}  // namespace cheetah::cluster::simulation
