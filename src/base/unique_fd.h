// SPDX-License-Identifier: MIT
#pragma once
#include <unistd.h>

#include <utility>

namespace cheetah {

// Owns a file descriptor and closes it.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  // Hands the descriptor to the caller, who closes it.
  int release() { return std::exchange(fd_, kNone); }
  void reset(int fd = kNone) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

 private:
  static constexpr int kNone = -1;  // as open(2) reports failure
  int fd_ = kNone;
};

}  // namespace cheetah
