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
    descriptor = decode_descriptor(event.entry.value);
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

void Node::State::on_message(WorkerId from, Message message) {
  const FaultAction action = parts.failpoints ? hit("receive", message_name(message)) : FaultAction::kNothing;
  if (action == FaultAction::kDouble) take_message(from, message);
  if (action != FaultAction::kDrop) take_message(from, std::move(message));
}

void Node::State::take_message(WorkerId from, Message message) {
  const auto* hello = std::get_if<Hello>(&message);
  if (hello && hello->descriptor.id == from) peers.heard(hello->descriptor);
  const Audience audience = cluster::audience(message);
  if (audience == Audience::kBoth && router && worker) {
    feed(RouterInput(PeerMessage{from, message}));
    feed(WorkerInput(PeerMessage{from, std::move(message)}));
  } else if (router && audience != Audience::kWorker) {
    feed(RouterInput(PeerMessage{from, std::move(message)}));
  } else if (worker && audience != Audience::kRouter) {
    feed(WorkerInput(PeerMessage{from, std::move(message)}));
  }
}

void Node::State::on_link(WorkerId peer, bool up, const std::string& why) {
  if (up)
    peers.up(peer);
  else
    peers.down(peer);
  if (parts.log)
    parts.log->write(
        LogLevel::kInfo, up ? "peer_up" : "peer_down", {{"peer", peers.name_of(peer)}, {"why", why}});
  if (up && !worker) send(peer, Hello{self});
  if (up) return feed_both(PeerUp{peer});
  if (edge) edge->peer_lost(peer);
  feed_both(PeerDown{peer});
}

void Node::State::on_kv_events(std::string_view bytes) {
  try {
    Message message = decode(bytes);
    if (auto* events = std::get_if<KvEvents>(&message))
      feed(RouterInput(PeerMessage{events->worker, std::move(message)}));
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
}

// Over the bus, or, where there is none, over the links.
void Node::State::tell_routers(KvEvents events) {
  const Message message = std::move(events);
  const std::string bytes = encode(message);
  if (parts.services.events->publish(format("kv.{:016x}", static_cast<uint64_t>(config.id)), bytes)) return;
  if (router) feed(RouterInput(PeerMessage{config.id, message}));
  for (const auto& [id, peer] : peers.peers())
    if (peer.linked && peer.descriptor.role == Role::kRouter) parts.mesh->send(id, bytes);
}

}  // namespace cheetah::cluster
