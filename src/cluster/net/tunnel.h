#pragma once
// TLS 1.3 between two workers, without a connection: bytes in, bytes out.
#include <memory>
#include <string>
#include <string_view>

#include "cluster/net/identity.h"

namespace cheetah::cluster {

class Tunnel {
 public:
  Tunnel(std::shared_ptr<const Identity> identity, bool dials);  // the identity is shared with all links
  ~Tunnel();
  Tunnel(Tunnel&&) noexcept;
  Tunnel& operator=(Tunnel&&) noexcept;

  // Takes bytes of the peer and appends what it said inside. Throws Error when the peer's certificate is not
  // acceptable, HandshakeEnd when ours is not to the peer.
  void open(std::string_view bytes, std::string& plain);
  void seal(std::string_view plain);  // once stands()
  std::string take_output();          // what must go to the peer, also after an Error: it says why

  bool stands() const;                   // both have shown their certificates
  const std::string& peer_name() const;  // in its certificate
  std::string binding() const;           // known to the two ends of this tunnel alone

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether a conversation begins as TLS does; a frame cannot: it would be longer than a stranger may send.
bool begins_as_tls(std::string_view bytes);

}  // namespace cheetah::cluster
