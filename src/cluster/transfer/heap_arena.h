#pragma once
// A receive arena in this process's own memory.
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "cluster/transfer/transport.h"

namespace cheetah::cluster::transfer {

class HeapArena {
 public:
  HeapArena(int64_t num_slots, int64_t slot_bytes)
      : words_(static_cast<size_t>(num_slots)),
        data_(static_cast<std::byte*>(
            ::operator new (static_cast<size_t>(num_slots* slot_bytes), std::align_val_t{kAlignment}))),
        slot_bytes_(slot_bytes) {}

  ArenaView view() { return {SlotWords(words_), data_.get(), slot_bytes_, MemoryKind::kHost}; }

 private:
  static constexpr size_t kAlignment = 4096;
  struct Free {
    void operator()(std::byte* data) const { ::operator delete (data, std::align_val_t{kAlignment}); }
  };
  std::vector<AtomicSlot> words_;
  std::unique_ptr<std::byte, Free> data_;
  int64_t slot_bytes_;
};

}  // namespace cheetah::cluster::transfer
