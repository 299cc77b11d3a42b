#pragma once
// A receive arena that other processes of this machine write to: anonymous memory (memfd) whose descriptor
// goes to a peer only after it has proved itself.
#include <memory>

#include "cluster/transfer/device_arena.h"
#include "cluster/transfer/transport.h"

namespace cheetah::cluster::transfer {

// A file descriptor, closed when this goes.
class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int fd) : fd_(fd) {}
  OwnedFd(OwnedFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~OwnedFd();
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Throws Error with what the system says: "transfer: memfd_create: No space left on device".
[[noreturn]] void throw_system_error(const char* call);

class SharedArena {
 public:
  // Ours. The memory cannot be made smaller, so that a peer never faults on it.
  SharedArena(int64_t num_slots, int64_t slot_bytes, MemoryKind kind);
  // A peer's, as it describes it; checked against the descriptor. Throws Error.
  SharedArena(OwnedFd fd, const AgentWelcome& welcome);
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;
  ~SharedArena();

  const ArenaView& view() const { return view_; }
  int fd() const { return fd_.get(); }
  std::string device_handle() const { return device_ ? device_->handle() : std::string(); }

 private:
  void map(int64_t num_slots, int64_t slot_bytes, MemoryKind kind);
  OwnedFd fd_;
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::unique_ptr<DeviceArena> device_;
  std::unique_ptr<OpenedDeviceArena> opened_;
  ArenaView view_;
};

}  // namespace cheetah::cluster::transfer
