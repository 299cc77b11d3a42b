// SPDX-License-Identifier: MIT
#include "cluster/transfer/unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/format.h"
#include "cluster/net/crypto.h"

namespace cheetah::cluster::transfer {
namespace {

UniqueFd new_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) throw_system_error("socket");
  return fd;
}

struct Address {
  sockaddr_un raw{};
  socklen_t size = 0;
};
Address abstract_address(const std::string& name) {
  Address address;
  address.raw.sun_family = AF_UNIX;
  if (name.empty() || name.size() + 1 > sizeof address.raw.sun_path)
    throw Error(format("transfer peer: its address has {} characters, expected 1 to {}", name.size(),
        sizeof address.raw.sun_path - 1));
  std::memcpy(address.raw.sun_path + 1, name.data(), name.size());  // the zero before it: abstract
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

}  // namespace

UnixListener::UnixListener()
    : fd_(new_socket()), name_(format("cheetah-transfer-{:016x}{:016x}", random_number(), random_number())) {
  const Address address = abstract_address(name_);
  if (::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address.raw), address.size) != 0)
    throw_system_error("bind");
  if (::listen(fd_.get(), 64) != 0) throw_system_error("listen");
}

UniqueFd UnixListener::accept() const {
  UniqueFd fd(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd) return {};
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid())
    return {};
  return fd;
}

UniqueFd connect_unix(const std::string& name) {
  UniqueFd fd = new_socket();
  const Address address = abstract_address(name);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.raw), address.size) != 0)
    throw Error(format("transfer peer: cannot be reached on this machine: {}", std::strerror(errno)));
  return fd;
}

// True when there is nothing left to do with the message: it went out, or the peer is gone, which the reading
// side will notice.
bool UnixLink::try_send(const Unsent& message) const {
  iovec piece{const_cast<char*>(message.bytes.data()), message.bytes.size()};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  if (message.attached >= 0) {
    header.msg_control = control.data();
    header.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &message.attached, sizeof(int));
  }
  for (;;) {
    if (::sendmsg(fd_.get(), &header, MSG_NOSIGNAL) >= 0) return true;
    if (errno == EINTR) continue;
    return errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS;
  }
}

void UnixLink::send(std::string bytes, int attached) {
  if (shut_) return;
  unsent_.push_back({std::move(bytes), attached});
  flush();
}

void UnixLink::flush() {
  while (!unsent_.empty() && try_send(unsent_.front())) unsent_.pop_front();
}

void UnixLink::shut_down() {
  shut_ = true;
  unsent_.clear();
  ::shutdown(fd_.get(), SHUT_WR);
}

UnixLink::Status UnixLink::receive(Received& out) {
  std::array<char, kMaxControlBytes> buffer;
  iovec piece{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  const ssize_t size = ::recvmsg(fd_.get(), &header, MSG_CMSG_CLOEXEC);
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return Status::kNothing;
  out = {};
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int fd = -1;
    std::memcpy(&fd, CMSG_DATA(part), sizeof fd);
    out.attached = UniqueFd(fd);
  }
  if (size <= 0 || (header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) return Status::kEnd;
  out.bytes.assign(buffer.data(), static_cast<size_t>(size));
  return Status::kMessage;
}

}  // namespace cheetah::cluster::transfer
