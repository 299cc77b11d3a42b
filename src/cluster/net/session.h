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
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/net/frame.h"
#include "cluster/net/session_crypto.h"
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
  std::optional<WorkerId> expected;  // whom a dialer wants to reach
};

class Session {
 public:
  explicit Session(SessionSetup setup, const Digest& nonce = random_nonce());

  std::string opening() const;  // what to send first: a listener waits
  // Takes bytes from the peer; appends what must be sent back to `reply` and what has arrived to `packets`.
  // Throws Error when the peer is not who it should be or does not keep to the protocol: the connection must
  // then be closed.
  void receive(std::string_view bytes, std::string& reply, std::vector<Packet>& packets);

  std::optional<WorkerId> peer() const { return peer_; }  // as it says; proved once established()
  bool established() const { return sender_.has_value(); }
  std::string seal(PacketType type, std::string_view payload);
  // Says why the connection is closed; only before it is established.
  static std::string refusal(std::string_view why);

 private:
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
  std::optional<PacketCipher> sender_, receiver_;
};

}  // namespace cheetah::cluster
