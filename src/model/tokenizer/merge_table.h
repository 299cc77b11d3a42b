// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cheetah {

// What two neighbouring tokens become, and how early. Open addressing: the inner loop of BPE is this look-up.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;  // kNone: these two do not merge
    int32_t result;
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  void reserve(int64_t count);
  // False when the pair is there already (and keeps its rank).
  bool insert(int32_t left, int32_t right, Merge merge);

  Merge find(int32_t left, int32_t right) const {
    const uint64_t key = key_of(left, right);
    for (size_t at = slot_of(key);; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.key == key) return slot.merge;
      if (slot.key == kFree) return {kNone, -1};
    }
  }
  int64_t size() const { return count_; }

 private:
  struct Slot {
    uint64_t key = kFree;
    Merge merge{kNone, -1};
  };
  static constexpr uint64_t kFree = UINT64_MAX;  // ids are never negative, so no pair has this key
  static uint64_t key_of(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  size_t slot_of(uint64_t key) const {
    const uint64_t mixed = key * 0x9E3779B97F4A7C15ULL;
    return (mixed ^ mixed >> 29) & mask_;
  }
  void grow(size_t slots);

  std::vector<Slot> slots_ = std::vector<Slot>(8);
  size_t mask_ = 7;
  int64_t count_ = 0;
};

}  // namespace cheetah
