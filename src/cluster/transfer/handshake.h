#pragma once
// How two agents make sure of each other before either accepts anything: both prove that they know the
// cluster's secret, or that they have a certificate of it and its key, over nonces of both and both names, so
// that no proof can be used a second time or in the other direction.
#include <optional>
#include <string>

#include "cluster/transfer/transfer_wire.h"

namespace cheetah::cluster::transfer {

Nonce random_nonce();
uint64_t random_number();

struct HandshakeSetup {
  Credentials credentials;
  // Of the one who listens, as both know it: whoever stands between the two at another address proves
  // nothing.
  std::string address;
};

// One side of one connection. Pure: messages in, messages out; throws Error when the peer is not what it
// should be.
class Handshake {
 public:
  // The side that connects knows whom it wants.
  static Handshake connecting(WorkerId self, WorkerId peer, HandshakeSetup setup);
  static Handshake listening(WorkerId self, HandshakeSetup setup);

  std::optional<AgentMessage> first() const;  // what to say before anything is heard
  // What to answer. When authenticated() is true afterwards, the answer goes out before anything else.
  std::optional<AgentMessage> handle(const AgentMessage& message);
  bool authenticated() const { return authenticated_; }
  WorkerId peer() const { return peer_; }

 private:
  Handshake(bool connects, WorkerId self, HandshakeSetup setup);
  std::string transcript(bool of_connecting) const;
  Proof proof(bool of_connecting) const;
  void check(const Proof& proof, bool of_connecting) const;
  bool connects_;
  WorkerId self_;
  WorkerId peer_{};
  HandshakeSetup setup_;
  Nonce mine_, theirs_{};
  bool heard_hello_ = false;
  bool authenticated_ = false;
};

}  // namespace cheetah::cluster::transfer
