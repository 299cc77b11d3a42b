// SPDX-License-Identifier: MIT
#pragma once
// What two nodes say on a connection, without the connection: bytes in, bytes and packets out.
//
// Everything goes through a tunnel (tunnel.h: TLS 1.3), which proves that both belong to the cluster. Inside:
//
//   dialer   → Hello{purpose, newest and oldest version spoken, id, key, newest and oldest format of messages}
//   listener ← Hello{…}
//   dialer   → Ready
//   both     ↔ packets, in the newest version that both speak
//
// With certificates the id must be one that its certificate's name allows. The key seals what one end sends the
// other through third parties.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/net/frame.h"
#include "cluster/net/tunnel.h"
#include "cluster/types.h"

namespace cheetah::cluster {

constexpr uint16_t kSessionVersion = 2, kOldestSessionVersion = 2;
constexpr size_t kMaxHandshakeFrameBytes = 256;  // of a peer that has not said who it is

enum class PacketType : uint8_t { kMessage = 1, kPing = 2, kPong = 3 };

struct Packet {
  PacketType type = PacketType::kMessage;
  std::string payload;
};

struct SessionSetup {
  WorkerId self{};
  Credentials credentials;
  bool dials = false;
  std::optional<WorkerId> expected = {};  // whom a dialer wants to reach
  // Asked about a peer that has said who it is: why there is no use for a link to it, or "".
  std::function<std::string(WorkerId peer)> objection = {};
  Digest key = {};                            // this node's, see peer_key()
  std::string_view purpose = "cheetah-mesh";  // two sides of one kind meet; a literal
  WireVersions wire = kWire;                  // of what is said on it
};

class Session {
 public:
  explicit Session(SessionSetup setup);

  std::string opening();  // what to send first: a listener waits
  // Takes bytes from the peer; appends what must be sent back to `reply` and what has arrived to `packets`.
  // Throws Error when the peer is not who it should be or does not keep to the protocol: the connection must
  // then be closed.
  void receive(std::string_view bytes, std::string& reply, std::vector<Packet>& packets);

  std::optional<WorkerId> peer() const { return peer_; }
  bool established() const { return established_; }
  uint16_t version() const { return version_; }         // agreed on, once established()
  const Digest& peer_key() const { return peer_key_; }  // once established()
  Digest derive_key(std::string_view label) const { return tunnel_.derive_key(label); }
  std::string seal(PacketType type, std::string_view payload);
  // What tells the peer why the connection is closed; only before it is established.
  std::string refusal(std::string_view why, bool unneeded = false);

 private:
  Packet take_packet(std::string&& frame);
  void take_handshake(std::string_view frame, std::string& answer);
  void take_hello(std::string_view body, std::string& answer);
  std::string hello() const;
  void establish();

  SessionSetup setup_;
  Tunnel tunnel_;
  std::optional<WorkerId> peer_;
  Digest peer_key_ = {};
  uint16_t version_ = kSessionVersion;
  FrameReader frames_;
  bool established_ = false;
};

}  // namespace cheetah::cluster
