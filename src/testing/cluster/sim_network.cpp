// SPDX-License-Identifier: MIT
#include "testing/cluster/sim_network.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "cluster/wire/codec.h"
#include "testing/cluster/sim_cluster.h"

namespace cheetah::cluster::simulation {

SimNetwork::SimNetwork(SimCluster& cluster, bool through_codec)
    : cluster_(cluster), simulation_(cluster.simulation()), through_codec_(through_codec) {}

SimNetwork::Link& SimNetwork::link(WorkerId a, WorkerId b) { return links_[std::minmax(a, b)]; }

void SimNetwork::link_up(WorkerId a, WorkerId b) {
  Link& one = link(a, b);
  SimNode* first = cluster_.find(a);
  SimNode* second = cluster_.find(b);
  if (one.up || !one.wanted || first == nullptr || second == nullptr) return;
  if (first->stopped() || second->stopped()) return link_later(a, b, milliseconds(200));
  if (simulation_.now() < one.told)
    return link_later(a, b, one.told - simulation_.now());  // both know the old one is down
  one.up = true;
  ++one.life;
  one.deaf[0] = one.deaf[1] = false;
  one.last[0] = one.last[1] = simulation_.now();
  first->tell_all(PeerUp{b});
  if (cluster_.find(b) == second) second->tell_all(PeerUp{a});
}

void SimNetwork::link_later(WorkerId a, WorkerId b, Duration delay) {
  simulation_.after(delay, [this, a, b] { link_up(a, b); });
}

// Both ends hear of it, not at the same time.
void SimNetwork::link_down(WorkerId a, WorkerId b) {
  Link& one = link(a, b);
  if (!one.up) return;
  one.up = false;
  const uint64_t life = one.life;
  Duration latest{};
  for (const auto& [self, peer] : {std::pair(a, b), std::pair(b, a)}) {
    const Duration delay = simulation_.between(0, 30);
    latest = std::max(latest, delay);
    cluster_.on(self, delay, [this, self = self, peer = peer] {
      if (SimNode* node = cluster_.find(self)) node->tell_all(PeerDown{peer});
    });
  }
  one.told = simulation_.now() + latest + milliseconds(1);
  simulation_.after(latest + simulation_.between(50, 250), [this, a, b, life] {
    if (link(a, b).life == life) link_up(a, b);
  });
}

void SimNetwork::send(WorkerId from, WorkerId to, const Message& message) {
  if (from == to) {
    auto shared = std::make_shared<Message>(message);
    return cluster_.on(to, Duration{}, [this, to, shared] {
      if (SimNode* node = cluster_.find(to)) node->receive(to, std::move(*shared));
    });
  }
  Link& one = link(from, to);
  const int direction = from < to ? 0 : 1;
  if (const auto* generate = std::get_if<Generate>(&message); generate != nullptr && !one.up)
    cluster_.clients().sent_in_vain(generate->key.uid);
  if (!one.up || one.deaf[direction]) return;
  if (cluster_.fault(cluster_.rates().drop, "a message is lost")) return;
  const bool late = cluster_.fault(cluster_.rates().late, "a message comes late and out of order");
  Duration delay = simulation_.between(0.1, 2);
  if (late) {
    delay += simulation_.between(5, 120);
  } else {  // in order with all that is not late
    one.last[direction] = std::max(one.last[direction], simulation_.now() + delay);
    delay = one.last[direction] - simulation_.now();
  }
  deliver(from, to, message, delay);
  if (cluster_.fault(cluster_.rates().twice, "a message comes twice"))
    deliver(from, to, message, delay + simulation_.between(0, 60));
}

// As the receiver reads what the sender wrote; nothing where one of the two has no such message.
std::optional<Message> SimNetwork::on_the_wire(WorkerId from, WorkerId to, const Message& message) {
  SimNode* sender = cluster_.find(from);
  SimNode* receiver = cluster_.find(to);
  const bool mixed = cluster_.mixes_releases() && sender != nullptr && receiver != nullptr;
  if (!mixed) return through_codec_ ? decode(encode(message)) : message;
  const WireVersions &theirs = receiver->spec().wire, &ours = sender->spec().wire;
  const uint16_t common = std::max(ours.oldest, std::min(ours.newest, theirs.newest));
  const std::string bytes = encode(message, std::holds_alternative<Hello>(message) ? ours.newest : common);
  return bytes.empty() ? std::nullopt : decode_known(bytes, theirs);
}

void SimNetwork::deliver(WorkerId from, WorkerId to, const Message& message, Duration delay) {
  const auto arrives = on_the_wire(from, to, message);
  if (!arrives) return;
  auto shared = std::make_shared<Message>(*arrives);
  const uint64_t life = link(from, to).life;
  cluster_.on(to, delay, [this, from, to, shared, life] {
    const Link& one = link(from, to);
    SimNode* node = cluster_.find(to);
    if (node == nullptr || !one.up || one.life != life) return;
    if (simulation_.logs() && !std::holds_alternative<Heartbeat>(*shared))
      simulation_.log(
          format("{} -> {}: {}", cluster_.find(from) != nullptr ? cluster_.find(from)->spec().name : "?",
              node->spec().name, message_name(*shared)));
    node->receive(from, std::move(*shared));
  });
}

void SimNetwork::cut(WorkerId a, WorkerId b) {
  link(a, b).wanted = false;
  link_down(a, b);
}

void SimNetwork::mend(WorkerId a, WorkerId b) {
  link(a, b).wanted = true;
  link_up(a, b);
}

void SimNetwork::go_deaf(WorkerId a, WorkerId b) { link(a, b).deaf[simulation_.below(2)] = true; }

void SimNetwork::heal(WorkerId a, WorkerId b, Duration delay) {
  Link& one = link(a, b);
  one.wanted = true;
  one.deaf[0] = one.deaf[1] = false;
  link_later(a, b, delay);
}

void SimNetwork::process_died(WorkerId id) {
  for (auto& [pair, one] : links_) {
    if (pair.first != id && pair.second != id) continue;
    if (!one.up) continue;
    one.up = false;
    const WorkerId peer = pair.first == id ? pair.second : pair.first;
    cluster_.on(peer, simulation_.between(0, 30), [this, peer, id] {
      if (SimNode* node = cluster_.find(peer)) node->tell_all(PeerDown{id});
    });
  }
}

}  // namespace cheetah::cluster::simulation
