// SPDX-License-Identifier: MIT
#pragma once
// A receive arena that other processes of this machine write to: anonymous memory (memfd) whose descriptor
// goes to a peer only after it has proved itself.
#include <memory>

#include "base/unique_fd.h"
#include "cluster/transfer/device_arena.h"
#include "cluster/transfer/transport.h"

namespace cheetah::cluster::transfer {

// Throws Error with what the system says: "transfer: memfd_create: No space left on device".
[[noreturn]] void throw_system_error(const char* call);

class SharedArena {
 public:
  // Ours. The memory cannot be made smaller, so that a peer never faults on it.
  SharedArena(int64_t num_slots, int64_t slot_bytes, MemoryKind kind);
  // A peer's, as it describes it; checked against the descriptor. Throws Error.
  SharedArena(UniqueFd fd, const AgentWelcome& welcome);
  SharedArena(const SharedArena&) = delete;
  SharedArena& operator=(const SharedArena&) = delete;
  ~SharedArena();

  const ArenaView& view() const { return view_; }
  int fd() const { return fd_.get(); }
  std::string device_handle() const { return device_ ? device_->handle() : std::string(); }

 private:
  void map(int64_t num_slots, int64_t slot_bytes, MemoryKind kind);
  UniqueFd fd_;
  void* mapping_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::unique_ptr<DeviceArena> device_;
  std::unique_ptr<OpenedDeviceArena> opened_;
  ArenaView view_;
};

}  // namespace cheetah::cluster::transfer
