// SPDX-License-Identifier: MIT
#pragma once
// Direct links between the processes of a cluster: whole messages, in order, each at most once while a link
// stands. A link that breaks loses what was on its way, and says so. Two kinds: sockets (tcp_mesh.h) and a
// network inside one process (local_mesh.h).
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/types.h"

namespace cheetah::cluster {

constexpr size_t kMaxMessageBytes = size_t{16} << 20;

// Called on the mesh's own thread, one at a time; must only hand the event on. Between on_up and on_down of a
// peer come all messages of one link.
struct MeshEvents {
  std::function<void(WorkerId peer)> on_up;
  std::function<void(WorkerId peer, const std::string& why)> on_down;
  std::function<void(WorkerId peer, std::string&& message)> on_message;
  // The peer takes messages more slowly than they are sent (true), or has caught up (false). A sender that
  // goes on loses the link in the end, never the memory.
  std::function<void(WorkerId peer, bool pressed)> on_pressure;
  // Somebody at that address did not prove what it is, or refused us; said again only after a while.
  std::function<void(const std::string& address, const std::string& why)> on_refused = {};
};

class Mesh {
 public:
  virtual ~Mesh() = default;

  // Once, before any other call. No event comes after the mesh was destroyed.
  virtual void start(MeshEvents events) = 0;
  // Wants a link to `peer` and keeps trying, also after one broke, until disconnect(). A new address replaces
  // the old.
  virtual void connect(WorkerId peer, const std::string& host, uint16_t port) = 0;
  // The same where only an address is known, from a list of peers: the process that answers there is the peer.
  virtual void connect_to(const std::string& host, uint16_t port) = 0;
  // Undoes connect_to(); a link to the peer that answered there is closed and reported down.
  virtual void disconnect_from(const std::string& host, uint16_t port) = 0;
  // No longer wants one; an open link is closed and reported down.
  virtual void disconnect(WorkerId peer) = 0;
  // From any thread. Without a link the message is dropped, as it would be had the link just broken. At most
  // kMaxMessageBytes.
  virtual void send(WorkerId peer, std::string message) = 0;

  // For what goes to a peer through others: only nodes with a link to this one can open what it has sealed, also
  // after the link broke. From any thread. nullopt: no link to the sealer yet, or it was changed on its way.
  virtual std::string seal(std::string_view text) const = 0;
  virtual std::optional<std::string> open(std::string_view sealed) const = 0;

  virtual std::string host() const = 0;  // where peers reach it
  virtual uint16_t port() const = 0;
};

}  // namespace cheetah::cluster
