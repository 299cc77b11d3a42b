// SPDX-License-Identifier: MIT
#include "cluster/transfer/shared_arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"

namespace cheetah::cluster::transfer {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t words_bytes(int64_t num_slots) {
  return (CheckedSize(num_slots) * CheckedSize(sizeof(AtomicSlot))).aligned_to(kPage).get();
}

uint64_t total_bytes(int64_t num_slots, int64_t slot_bytes, MemoryKind kind) {
  const CheckedSize slots = CheckedSize(num_slots) * CheckedSize(kind == MemoryKind::kHost ? slot_bytes : 0);
  return (CheckedSize(words_bytes(num_slots)) + slots).get();
}

}  // namespace

void throw_system_error(const char* call) {
  throw Error(format("transfer: {}: {}", call, std::strerror(errno)));
}

void SharedArena::map(int64_t num_slots, int64_t slot_bytes, MemoryKind kind) {
  mapped_bytes_ = total_bytes(num_slots, slot_bytes, kind);
  mapping_ = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw_system_error("mmap");
  }
  auto* words = static_cast<AtomicSlot*>(mapping_);  // zeroed memory is a free slot
  view_ = {SlotWords({words, static_cast<size_t>(num_slots)}), nullptr, slot_bytes, kind};
  if (kind == MemoryKind::kHost) view_.data = static_cast<std::byte*>(mapping_) + words_bytes(num_slots);
}

SharedArena::SharedArena(int64_t num_slots, int64_t slot_bytes, MemoryKind kind)
    : fd_(::memfd_create("cheetah-transfer", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (!fd_) throw_system_error("memfd_create");
  if (::fchmod(fd_.get(), 0600) != 0) throw_system_error("fchmod");
  if (::ftruncate(fd_.get(), static_cast<off_t>(total_bytes(num_slots, slot_bytes, kind))) != 0)
    throw_system_error("ftruncate");
  if (::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw_system_error("fcntl");
  map(num_slots, slot_bytes, kind);
  if (kind == MemoryKind::kDevice) {
    device_ = std::make_unique<DeviceArena>(num_slots * slot_bytes);
    view_.data = device_->data();
  }
}

SharedArena::SharedArena(UniqueFd fd, const AgentWelcome& welcome) : fd_(std::move(fd)) {
  if (!fd_) throw Error("transfer peer: sent no memory with its welcome");
  const int seals = ::fcntl(fd_.get(), F_GET_SEALS);
  struct stat status {};
  if (seals < 0 || !(seals & F_SEAL_SHRINK) || ::fstat(fd_.get(), &status) != 0 ||
      static_cast<uint64_t>(status.st_size) !=
          total_bytes(welcome.num_slots, welcome.slot_bytes, welcome.kind))
    throw Error("transfer peer: its memory is not what its welcome says");
  map(welcome.num_slots, welcome.slot_bytes, welcome.kind);
  if (welcome.kind == MemoryKind::kDevice) {
    opened_ = std::make_unique<OpenedDeviceArena>(welcome.device_handle);
    view_.data = opened_->data();
  }
}

SharedArena::~SharedArena() {
  if (mapping_) ::munmap(mapping_, mapped_bytes_);
}

}  // namespace cheetah::cluster::transfer
