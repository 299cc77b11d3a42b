// SPDX-License-Identifier: MIT
#pragma once
// TCP sockets that never block, for slabs and the words around them.
#include <sys/socket.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>

#include "cluster/transfer/shared_arena.h"

namespace cheetah::cluster::transfer {

// An IP address and port as text: "127.0.0.1:4711", "[::1]:4711".
class SocketAddress {
 public:
  SocketAddress(const std::string& host, uint16_t port);  // throws Error
  static SocketAddress parse(const std::string& text);    // throws Error
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const { return size_; }

 private:
  sockaddr_storage storage_{};
  socklen_t size_ = 0;
};

class StreamListener {
 public:
  StreamListener(const std::string& host, uint16_t port);  // throws Error
  int fd() const { return fd_.get(); }
  const std::string& address() const { return address_; }
  UniqueFd accept() const;  // or none

 private:
  UniqueFd fd_;
  std::string address_;
};

UniqueFd connect_stream(const std::string& address);  // throws Error; it may still be connecting

// One end of a connection: what is sent goes out in order, as the peer takes it.
class StreamLink {
 public:
  explicit StreamLink(UniqueFd fd);
  int fd() const { return fd_.get(); }
  bool wants_to_write() const { return !unsent_.empty(); }

  void send(std::string head, std::unique_ptr<std::byte[]> body = nullptr, size_t body_bytes = 0);
  bool flush();  // as far as possible; false: the connection is broken

  enum class Status : uint8_t { kBytes, kNothing, kEnd };
  Status receive(std::span<std::byte> into, size_t& got);

 private:
  struct Unsent {
    std::string head;
    std::unique_ptr<std::byte[]> body;
    size_t body_bytes = 0;
    size_t sent = 0;
  };
  UniqueFd fd_;
  std::deque<Unsent> unsent_;
};

}  // namespace cheetah::cluster::transfer
