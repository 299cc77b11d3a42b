// SPDX-License-Identifier: MIT
#pragma once
// The mesh over TCP: one thread with an event loop owns all connections.
#include <chrono>
#include <memory>
#include <string>

#include "cluster/net/credentials.h"
#include "cluster/net/mesh.h"

namespace cheetah::cluster {

struct TcpMeshConfig {
  WorkerId self{};
  std::string host = "127.0.0.1";  // to listen on; beyond this machine only with credentials
  uint16_t port = 0;               // 0: a free one
  WireVersions wire = kWire;
  Credentials credentials;  // none: every process of this machine may join; `self` fits the certificate
  std::chrono::milliseconds ping_interval{500};
  std::chrono::milliseconds dead_after{3000};      // silent for so long: gone
  std::chrono::milliseconds handshake_time{3000};  // for both to prove who they are
  std::chrono::milliseconds first_retry{20}, last_retry{1000};
  int64_t max_strangers = 64;  // connections that have proved nothing yet
  // Bytes that wait for a peer: from `pressed` on the sender is told, at `most` the link is cut.
  size_t pressed_bytes = size_t{4} << 20, relieved_bytes = size_t{1} << 20;
  size_t most_bytes = size_t{128} << 20;
};

// Binds at once; throws Error (address in use, no address of this machine, no credentials beyond it).
std::unique_ptr<Mesh> make_tcp_mesh(const TcpMeshConfig& config);

}  // namespace cheetah::cluster
