// SPDX-License-Identifier: MIT
#pragma once
// A receive arena in this process's own memory.
#include <sys/mman.h>

#include <memory>
#include <new>
#include <vector>

#include "cluster/transfer/transport.h"

namespace cheetah::cluster::transfer {

// Memory in huge pages where the system has them: pinning and copying it costs a fraction.
class HugeBuffer {
 public:
  explicit HugeBuffer(int64_t bytes)
      : data_(static_cast<std::byte*>(
            ::operator new (static_cast<size_t>(bytes), std::align_val_t{kAlignment}))) {
    ::madvise(data_.get(), static_cast<size_t>(bytes), MADV_HUGEPAGE);  // a wish: without it all works too
  }
  std::byte* data() const { return data_.get(); }

 private:
  static constexpr size_t kAlignment = size_t{2} << 20;
  struct Free {
    void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{kAlignment}); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

class HeapArena {
 public:
  HeapArena(int64_t num_slots, int64_t slot_bytes)
      : words_(static_cast<size_t>(num_slots)), memory_(num_slots * slot_bytes), slot_bytes_(slot_bytes) {}

  ArenaView view() { return {SlotWords(words_), memory_.data(), slot_bytes_, MemoryKind::kHost}; }

 private:
  std::vector<AtomicSlot> words_;
  HugeBuffer memory_;
  int64_t slot_bytes_;
};

}  // namespace cheetah::cluster::transfer
