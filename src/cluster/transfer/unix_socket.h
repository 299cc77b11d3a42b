// SPDX-License-Identifier: MIT
#pragma once
// Messages and file descriptors between processes of one machine.
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "cluster/transfer/shared_arena.h"

namespace cheetah::cluster::transfer {

// Listens under a name that cannot be guessed, in the abstract namespace: nothing is left behind in the file system.
class UnixListener {
 public:
  UnixListener();
  int fd() const { return fd_.get(); }
  const std::string& name() const { return name_; }
  // A connection of a process of the same user, or nothing.
  UniqueFd accept() const;

 private:
  UniqueFd fd_;
  std::string name_;
};

UniqueFd connect_unix(const std::string& name);  // throws Error

// One end of a connection that keeps message boundaries. Never blocks.
class UnixLink {
 public:
  explicit UnixLink(UniqueFd fd) : fd_(std::move(fd)) {}
  int fd() const { return fd_.get(); }
  bool wants_to_write() const { return !unsent_.empty(); }

  void send(std::string bytes, int attached = -1);
  void flush();
  void shut_down();  // we send no more

  struct Received {
    std::string bytes;
    UniqueFd attached;
  };
  enum class Status : uint8_t { kMessage, kNothing, kEnd };
  Status receive(Received& out);

 private:
  struct Unsent {
    std::string bytes;
    int attached;
  };
  bool try_send(const Unsent& message) const;
  UniqueFd fd_;
  std::deque<Unsent> unsent_;
  bool shut_ = false;
};

}  // namespace cheetah::cluster::transfer
