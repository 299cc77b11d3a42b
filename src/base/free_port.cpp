// SPDX-License-Identifier: MIT
#include "base/free_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <optional>
#include <random>

#include "base/error.h"

namespace cheetah {
namespace {

std::optional<uint16_t> try_port(uint16_t port) {
  const int probe = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  const bool bound =
      probe >= 0 && ::bind(probe, generic, size) == 0 && ::getsockname(probe, generic, &size) == 0;
  if (probe >= 0) ::close(probe);
  return bound ? std::optional(ntohs(address.sin_port)) : std::nullopt;
}

}  // namespace

uint16_t free_port() {
  constexpr uint32_t kFirst = 12'000, kEnd = 24'000;
  constexpr int kTries = 200;
  uint32_t kernels = 0;  // begin there
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> kernels;
  std::random_device random;
  for (int i = 0; i < kTries && kernels >= kEnd; ++i)
    if (const auto port = try_port(static_cast<uint16_t>(kFirst + random() % (kEnd - kFirst)))) return *port;
  if (const auto port = try_port(0)) return *port;
  throw Error("no port is free on 127.0.0.1");
}

}  // namespace cheetah
