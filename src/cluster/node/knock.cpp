// SPDX-License-Identifier: MIT
#include "cluster/node/knock.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <memory>

#include "base/unique_fd.h"

namespace cheetah::cluster {

Knock knock(const std::string& host, uint16_t port, std::chrono::milliseconds limit) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return Knock::kSilent;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  const UniqueFd probe(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe) return Knock::kSilent;
  if (connect(probe.get(), found->ai_addr, found->ai_addrlen) == 0) return Knock::kAccepted;
  if (errno == ECONNREFUSED) return Knock::kRefused;
  if (errno != EINPROGRESS) return Knock::kSilent;
  pollfd connected = {.fd = probe.get(), .events = POLLOUT, .revents = 0};
  if (poll(&connected, 1, static_cast<int>(limit.count())) != 1) return Knock::kSilent;
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(probe.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? Knock::kAccepted : error == ECONNREFUSED ? Knock::kRefused : Knock::kSilent;
}

}  // namespace cheetah::cluster
