#pragma once
// What two peers say on a connection, without the connection: bytes in, bytes and packets out.
//
//   dialer   → Hello{version, id, nonce}
//   listener ← Hello{version, id, nonce}
//   dialer   → Proof   HMAC-SHA256(secret, "dialer"   + both ids + both nonces)
//   listener ← Proof   HMAC-SHA256(secret, "listener" + both ids + both nonces)
//
// Each side's fresh nonce is in both proofs, so an old conversation cannot be played again, and the labels
// keep a proof from being sent back. Then every packet is sealed under keys derived from the same values.
// There is no forward secrecy: whoever has the secret and a recording can read the recording.
//
// Workers with certificates first make a tunnel (tunnel.h). Inside it they say the same, with a key of the
// tunnel for the secret: that ties the ids to the certificates. The tunnel seals the packets.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "cluster/net/frame.h"
#include "cluster/net/session_crypto.h"
#include "cluster/net/tunnel.h"
#include "cluster/types.h"

namespace cheetah::cluster {

constexpr uint16_t kSessionVersion = 1;
constexpr size_t kMaxHandshakeFrameBytes = 256;  // of a peer that has proved nothing yet

enum class PacketType : uint8_t { kMessage = 1, kPing = 2, kPong = 3 };

struct Packet {
  PacketType type = PacketType::kMessage;
  std::string payload;
};

struct SessionSetup {
  WorkerId self{};
  std::string secret;
  bool dials = false;
  std::optional<WorkerId> expected;                    // whom a dialer wants to reach
  std::shared_ptr<const Identity> identity = nullptr;  // instead of the secret; shared by all links
  // Asked about a peer that has said who it is: why there is no use for a link to it, or "".
  std::function<std::string(WorkerId peer)> objection = {};
};

// A session that ends before it is established for another reason than what the peer has shown of itself.
class HandshakeEnd : public Error {
 public:
  enum class Kind { kRefusedByPeer, kUnneeded, kUnneededByPeer };  // unneeded: nothing is wrong
  HandshakeEnd(const std::string& why, Kind kind) : Error(why), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

class Session {
 public:
  explicit Session(SessionSetup setup, const Digest& nonce = random_nonce());

  std::string opening();  // what to send first: a listener waits
  // Takes bytes from the peer; appends what must be sent back to `reply` and what has arrived to `packets`.
  // Throws Error when the peer is not who it should be or does not keep to the protocol: the connection must
  // then be closed.
  void receive(std::string_view bytes, std::string& reply, std::vector<Packet>& packets);

  std::optional<WorkerId> peer() const { return peer_; }  // as it says; proved once established()
  bool established() const { return established_; }
  std::string seal(PacketType type, std::string_view payload);
  // What tells the peer why the connection is closed; only before it is established.
  std::string refusal(std::string_view why, bool unneeded = false);

 private:
  enum class Speech { kUnknown, kTls, kPlain };  // what a worker with a certificate hears
  void recognise(std::string_view bytes);
  void take_frames(std::string_view bytes, std::string& reply, std::vector<Packet>& packets);
  Packet take_packet(std::string&& frame);
  void take_handshake(std::string_view frame, std::string& reply);
  void take_hello(std::string_view body, std::string& reply);
  void take_proof(std::string_view body, std::string& reply);
  std::string transcript() const;
  Digest derive(std::string_view label) const;
  std::string hello() const;
  void establish();

  SessionSetup setup_;
  Digest nonce_;
  Digest peer_nonce_ = {};
  std::optional<WorkerId> peer_;
  FrameReader frames_;
  bool established_ = false;
  std::optional<PacketCipher> sender_, receiver_;  // without a tunnel
  std::optional<Tunnel> tunnel_;
  Speech speech_ = Speech::kUnknown;
  std::string unrecognised_;
};

}  // namespace cheetah::cluster
