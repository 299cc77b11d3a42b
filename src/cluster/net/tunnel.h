// SPDX-License-Identifier: MIT
#pragma once
// TLS 1.3 between two nodes, without a connection: bytes in, bytes out.
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "cluster/net/credentials.h"
#include "cluster/net/crypto.h"

namespace cheetah::cluster {

// A session that ends before it is established for another reason than what the peer has shown of itself.
class HandshakeEnd : public Error {
 public:
  enum class Kind { kRefusedByPeer, kUnneeded, kUnneededByPeer };  // unneeded: nothing is wrong
  HandshakeEnd(const std::string& why, Kind kind) : Error(why), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

class Tunnel {
 public:
  Tunnel(const Credentials& credentials, bool dials);
  ~Tunnel();
  Tunnel(Tunnel&&) noexcept;
  Tunnel& operator=(Tunnel&&) noexcept;

  // Takes bytes of the peer and appends what it said inside. Throws Error when the peer does not prove that it
  // belongs to the cluster, HandshakeEnd when this node does not to the peer.
  void open(std::string_view bytes, std::string& plain);
  void seal(std::string_view plain);  // once stands()
  std::string take_output();          // what must go to the peer, also after an Error: it says why

  bool stands() const;                              // both have proved themselves
  const std::string& peer_name() const;             // in its certificate; "": it has shown a secret
  Digest derive_key(std::string_view label) const;  // known to the two ends of this tunnel alone

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cheetah::cluster
