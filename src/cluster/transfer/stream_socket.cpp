// SPDX-License-Identifier: MIT
#include "cluster/transfer/stream_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster::transfer {
namespace {

// A peer whose machine is gone is noticed after so long.
constexpr unsigned kGoneAfterMs = 10'000;

UniqueFd new_socket(int family) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) throw_system_error("socket");
  return fd;
}

template <class T>
void set_option(int fd, int level, int name, T value) {
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof value));  // without it all works too
}

uint16_t bound_port(int fd) {
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) throw_system_error("getsockname");
  return ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                           : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
}

}  // namespace

SocketAddress::SocketAddress(const std::string& host, uint16_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    throw Error(format("transfer: {} is not an address", printable(host)));
  std::memcpy(&storage_, found->ai_addr, found->ai_addrlen);
  size_ = found->ai_addrlen;
  ::freeaddrinfo(found);
}

SocketAddress SocketAddress::parse(const std::string& text) {
  const size_t colon = text.rfind(':');
  uint16_t port = 0;
  const char* end = text.data() + text.size();
  if (colon == std::string::npos || std::from_chars(text.data() + colon + 1, end, port).ptr != end ||
      port == 0)
    throw Error(format("transfer address {}: expected IP:PORT", printable(text)));
  const bool six = colon >= 2 && text.front() == '[' && text[colon - 1] == ']';
  return SocketAddress(six ? text.substr(1, colon - 2) : text.substr(0, colon), port);
}

StreamListener::StreamListener(const std::string& host, uint16_t port) {
  const SocketAddress wanted(host, port);
  fd_ = new_socket(wanted.raw()->sa_family);
  set_option(fd_.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (::bind(fd_.get(), wanted.raw(), wanted.size()) != 0)
    throw Error(format("transfer: listening on {} port {}: {}", host, port, std::strerror(errno)));
  if (::listen(fd_.get(), SOMAXCONN) != 0) throw_system_error("listen");
  const bool six = wanted.raw()->sa_family == AF_INET6;
  address_ = format("{}{}{}:{}", six ? "[" : "", host, six ? "]" : "", bound_port(fd_.get()));
}

UniqueFd StreamListener::accept() const {
  return UniqueFd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

UniqueFd connect_stream(const std::string& address) {
  const SocketAddress to = SocketAddress::parse(address);
  UniqueFd fd = new_socket(to.raw()->sa_family);
  if (::connect(fd.get(), to.raw(), to.size()) != 0 && errno != EINPROGRESS)
    throw Error(format("transfer peer {}: {}", printable(address), std::strerror(errno)));
  return fd;
}

StreamLink::StreamLink(UniqueFd fd) : fd_(std::move(fd)) {
  set_option(fd_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd_.get(), SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd_.get(), IPPROTO_TCP, TCP_KEEPIDLE, 5);
  set_option(fd_.get(), IPPROTO_TCP, TCP_KEEPINTVL, 2);
  set_option(fd_.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, kGoneAfterMs);
}

void StreamLink::send(std::string head, std::unique_ptr<std::byte[]> body, size_t body_bytes) {
  unsent_.push_back({std::move(head), std::move(body), body_bytes});
}

bool StreamLink::flush() {
  while (!unsent_.empty()) {
    Unsent& first = unsent_.front();
    const size_t head = first.head.size() - std::min(first.sent, first.head.size());
    const size_t body = first.body_bytes - (first.sent - (first.head.size() - head));
    std::array<iovec, 2> parts{iovec{first.head.data() + (first.head.size() - head), head},
        iovec{first.body.get() + (first.body_bytes - body), body}};
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    const ssize_t sent = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOTCONN || errno == EINPROGRESS;
    first.sent += static_cast<size_t>(sent);
    if (first.sent == first.head.size() + first.body_bytes) unsent_.pop_front();
  }
  return true;
}

StreamLink::Status StreamLink::receive(std::span<std::byte> into, size_t& got) {
  const ssize_t size = ::recv(fd_.get(), into.data(), into.size(), 0);
  got = size > 0 ? static_cast<size_t>(size) : 0;
  if (size > 0) return Status::kBytes;
  const bool later =
      size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ENOTCONN);
  return later ? Status::kNothing : Status::kEnd;
}

}  // namespace cheetah::cluster::transfer
