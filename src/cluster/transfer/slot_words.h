// SPDX-License-Identifier: MIT
#pragma once
// One atomic word says of each slot of a receive arena who may do what with it. Sender and receiver change it
// by compare-and-swap, across threads or, in shared memory, across processes. That is the fence: a writer
// must win the word from kOpen with the generation of its ticket, so a stale ticket never writes, and the
// receiver never frees a slot that a writer holds.
//
//   owner    kFree → kOpen → … → kFree         reserve, release
//   writer   kOpen → kBusy → kLanded           or kClosing → kFree when the owner gave up meanwhile
//   checker  kLanded → kChecked, or → kOpen when damaged
//   owner    kBusy → kClosing → kFree          release while a writer or checker is at it: quarantine
#include <atomic>
#include <cstdint>
#include <span>

namespace cheetah::cluster::transfer {

enum class SlotState : uint8_t { kFree, kOpen, kBusy, kLanded, kChecked, kClosing };

// Who writes: a number the receiver gives each connection. 0: the receiver itself (its checker).
using WriterNumber = uint16_t;
inline constexpr WriterNumber kSelf = 0;

struct SlotWord {
  uint32_t generation = 0;
  WriterNumber writer = kSelf;
  SlotState state = SlotState::kFree;

  bool operator==(const SlotWord&) const = default;
  uint64_t packed() const {
    return (uint64_t{generation} << 32) | (uint64_t{writer} << 8) | static_cast<uint64_t>(state);
  }
  static SlotWord unpacked(uint64_t word) {
    return {static_cast<uint32_t>(word >> 32), static_cast<WriterNumber>(word >> 8),
        static_cast<SlotState>(word & 0xFF)};
  }
};

using AtomicSlot = std::atomic<uint64_t>;
static_assert(AtomicSlot::is_always_lock_free, "slot words are shared between processes");

// The words of one arena. A view: the maker of the arena owns the memory.
class SlotWords {
 public:
  SlotWords() = default;
  explicit SlotWords(std::span<AtomicSlot> words) : words_(words) {}

  int64_t size() const { return std::ssize(words_); }
  SlotWord load(uint32_t slot) const {
    return SlotWord::unpacked(words_[slot].load(std::memory_order_acquire));
  }
  bool swap(uint32_t slot, SlotWord from, SlotWord to) const {
    uint64_t expected = from.packed();
    return words_[slot].compare_exchange_strong(expected, to.packed(), std::memory_order_acq_rel);
  }

  // Writer: false when the ticket is stale or another writer has the slot.
  bool begin_write(uint32_t slot, uint32_t generation, WriterNumber writer) const;
  bool wanted(uint32_t slot, uint32_t generation, WriterNumber writer) const;  // still, between two chunks
  bool finish_write(
      uint32_t slot, uint32_t generation, WriterNumber writer) const;  // false: not wanted any more
  void abandon_write(uint32_t slot, uint32_t generation, WriterNumber writer) const;

  // Checker. begin_check takes a landed slot from its writer; false: not landed, or closed meanwhile.
  bool begin_check(uint32_t slot, uint32_t generation, WriterNumber writer) const;
  bool finish_check(uint32_t slot, uint32_t generation, bool good) const;  // false: not wanted any more

  // Owner. close() is true when the slot is free at once, false while a writer or checker is at it.
  void open(uint32_t slot, uint32_t generation) const;
  bool close(uint32_t slot, uint32_t generation) const;
  bool checked(uint32_t slot, uint32_t generation) const;
  // A slot still on offer gets another generation, so that no writer can begin with the old one.
  bool renew(uint32_t slot, uint32_t generation, uint32_t next) const;

  // The writer is gone for good: whatever it held is as if it had never begun.
  void forget_writer(WriterNumber writer) const;

 private:
  std::span<AtomicSlot> words_;
};

}  // namespace cheetah::cluster::transfer
