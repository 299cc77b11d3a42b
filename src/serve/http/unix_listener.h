// SPDX-License-Identifier: MIT
#pragma once
// A Unix socket to listen on: its file, with the rights it is to have, for as long as this lives.
#include <sys/types.h>

#include <string>

#include "base/unique_fd.h"

namespace cheetah {

class UnixListener {
 public:
  // Takes the place of a socket that nothing listens at any more. Throws Error where something does, where the
  // path is another kind of file, or is too long.
  UnixListener(const std::string& path, mode_t mode);
  ~UnixListener();  // removes the file, unless another has taken its place
  UnixListener(const UnixListener&) = delete;
  UnixListener& operator=(const UnixListener&) = delete;

  int take_descriptor() { return socket_.release(); }  // it listens

 private:
  std::string path_;
  UniqueFd socket_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace cheetah
