// SPDX-License-Identifier: MIT
// What other threads tell a node.
#include "base/error.h"
#include "base/format.h"
#include "cluster/node/node_state.h"
#include "cluster/node/registry_keys.h"
#include "cluster/wire/codec.h"
#include "observe/event_log.h"

namespace cheetah::cluster {
void Node::State::on_registry(const RegistryEvent& event) {
  if (event.kind == RegistryEvent::Kind::kSynced) {
    feed_both(RegistrySnapshot{std::move(*first_map)});
    first_map.reset();
    return;
  }
  if (event.kind == RegistryEvent::Kind::kRemove) {
    const auto id = worker_in_key(event.entry.key);
    if (!id) return;
    peers.gone(*id);
    feed_both(RegistryGone{*id});
    return;
  }
  WorkerDescriptor descriptor;
  try {
    descriptor = decode_descriptor(event.entry.value, config.wire);
  } catch (const Error& error) {
    if (parts.log)
      parts.log->write(
          LogLevel::kWarning, "registry_entry_refused", {{"key", event.entry.key}, {"why", error.what()}});
    return;
  }
  peers.put(descriptor);
  if (first_map) return first_map->push_back(descriptor);
  feed_both(RegistryPut{descriptor});
}

// A line of a list of peers. The link to one whose line is gone stays until it has nothing left to do there.
void Node::State::on_listed(const RegistryEvent& event) {
  const auto address = peer_address(event.entry.key);
  const bool itself = address && address->port == self.port && address->host == self.host;
  if (!address || itself) return;
  const bool put = event.kind == RegistryEvent::Kind::kPut;
  PeerList& list = peers.list();
  if (put)
    list.put(event.entry.key, event.entry.value);
  else
    list.remove(event.entry.key, event.entry.value);
  bool linked = false;
  for (const auto& [id, peer] : peers.peers()) {
    if (!peer.linked || peer.descriptor.id != id) continue;
    const bool its = peer.descriptor.host == address->host && peer.descriptor.port == address->port;
    linked = linked || its;
    const bool taken_off = !put && list.taken_off(peer.descriptor);
    if (taken_off || (put && list.lists(event.entry.key, peer.descriptor)))
      feed_both(RegistryPut{peer.descriptor});
    if (taken_off) feed_both(RegistryGone{id});
  }
  if (put) return parts.mesh->connect_to(address->host, address->port);
  if (!linked) parts.mesh->disconnect_from(address->host, address->port);
}

void Node::State::on_message(WorkerId from, Message message) {
  const FaultAction action = parts.failpoints ? hit("receive", message_name(message)) : FaultAction::kNothing;
  if (action == FaultAction::kDouble) take_message(from, message);
  if (action != FaultAction::kDrop) take_message(from, std::move(message));
}

void Node::State::take_message(WorkerId from, Message message) {
  if (const auto* orders = std::get_if<Orders>(&message)) return op->operations.hear(from, *orders);
  const auto* hello = std::get_if<Hello>(&message);
  if (hello && hello->descriptor.id == from) peers.heard(hello->descriptor);
  const std::optional<WorkerDescriptor> taken_off =
      hello && peers.list().taken_off(hello->descriptor) ? std::optional(hello->descriptor) : std::nullopt;
  if (sharing.hear(from, message, next_change, std::chrono::steady_clock::now())) return;
  const Audience audience = cluster::audience(message);
  if (audience == Audience::kBoth && router && worker) {
    feed(RouterInput(PeerMessage{from, message}));
    feed(WorkerInput(PeerMessage{from, std::move(message)}));
  } else if (router && audience != Audience::kWorker) {
    feed(RouterInput(PeerMessage{from, std::move(message)}));
  } else if (worker && audience != Audience::kRouter) {
    feed(WorkerInput(PeerMessage{from, std::move(message)}));
  }
  if (!taken_off || taken_off->id != from) return;
  feed_both(RegistryPut{*taken_off});
  feed_both(RegistryGone{from});
}

void Node::State::on_link(WorkerId peer, bool up, const std::string& why) {
  WorkerDescriptor gone;
  if (const KnownPeer* known = peers.find(peer); known && !up) gone = known->descriptor;
  if (up)
    peers.up(peer);
  else
    peers.down(peer);
  if (parts.log)
    parts.log->write(
        LogLevel::kInfo, up ? "peer_up" : "peer_down", {{"peer", peers.name_of(peer)}, {"why", why}});
  if (up && !worker) send(peer, Hello{self});
  if (up) op->operations.link_up(peer);
  if (up) return feed_both(PeerUp{peer});
  if (edge) edge->peer_lost(peer);
  feed_both(PeerDown{peer});
  if (!parts.services.registry->is_shared()) feed_both(RegistryGone{peer});  // an id does not come back
  if (peers.list().taken_off(gone)) parts.mesh->disconnect_from(gone.host, gone.port);
}

void Node::State::on_kv_events(std::string_view bytes) {
  try {
    auto message = decode_known(bytes, config.wire);
    if (auto* events = message ? std::get_if<KvEvents>(&*message) : nullptr)
      feed(RouterInput(PeerMessage{events->worker, std::move(*message)}));
  } catch (const Error& error) {
    if (parts.log) parts.log->write(LogLevel::kWarning, "kv_events_refused", {{"why", error.what()}});
  }
}

// What the prefix cache holds, numbered, so that a router knows when it has missed something.
void Node::State::on_cache_changes(const std::vector<PrefixChange>& changes) {
  constexpr size_t kAtOnce = 4096;  // keeps a message small; a cache that is dropped whole has many
  for (size_t begin = 0; begin < changes.size(); begin += kAtOnce) {
    KvEvents events{.worker = config.id, .first_number = next_change, .changes = {}};
    for (size_t i = begin; i < std::min(begin + kAtOnce, changes.size()); ++i) {
      const auto kind = changes[i].stored ? CacheChange::Kind::kStored : CacheChange::Kind::kRemoved;
      events.changes.push_back({kind, changes[i].block, changes[i].parent});
    }
    next_change += events.changes.size();
    tell_routers(std::move(events));
  }
  sharing.cache_changed(changes);
}

// Over the bus, or, where there is none, over the links.
void Node::State::tell_routers(KvEvents events) {
  const Message message = std::move(events);
  const std::string bytes = encode(message, config.wire.newest);
  if (parts.services.events->publish(format("kv.{:016x}", static_cast<uint64_t>(config.id)), bytes)) return;
  if (router) feed(RouterInput(PeerMessage{config.id, message}));
  for (const auto& [id, peer] : peers.peers())
    if (peer.linked && peer.descriptor.role == Role::kRouter) parts.mesh->send(id, bytes);
}

}  // namespace cheetah::cluster
