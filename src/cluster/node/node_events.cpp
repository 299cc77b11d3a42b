// What other threads tell a node.
#include "base/error.h"
#include "base/format.h"
#include "cluster/node/node_state.h"
#include "cluster/node/registry_words.h"
#include "cluster/wire/codec.h"
#include "serve/event_log.h"

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
      parts.log->write(LogLevel::kWarning, "registry_entry_refused",
                       {{"key", event.entry.key}, {"why", error.what()}});
    return;
  }
  peers.put(descriptor);
  if (first_map) return first_map->push_back(descriptor);
  feed_both(RegistryPut{descriptor});
}

void Node::State::on_message(WorkerId from, Message message) {
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
  up ? peers.up(peer) : peers.down(peer);
  if (parts.log)
    parts.log->write(LogLevel::kInfo, up ? "peer_up" : "peer_down",
                     {{"peer", peers.name_of(peer)}, {"why", why}});
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

}  // namespace cheetah::cluster
