// SPDX-License-Identifier: MIT
#include "model/tokenizer/merge_table.h"

#include <bit>

namespace cheetah {

void MergeTable::reserve(int64_t count) {
  const size_t wanted = std::bit_ceil(static_cast<size_t>(count) * 2 + 8);
  if (wanted > slots_.size()) grow(wanted);
}

void MergeTable::grow(size_t slots) {
  std::vector<Slot> old(slots);
  old.swap(slots_);
  mask_ = slots - 1;
  for (const Slot& slot : old) {
    if (slot.key == kFree) continue;
    size_t at = slot_of(slot.key);
    while (slots_[at].key != kFree) at = (at + 1) & mask_;
    slots_[at] = slot;
  }
}

bool MergeTable::insert(int32_t left, int32_t right, Merge merge) {
  reserve(count_ + 1);
  const uint64_t key = key_of(left, right);
  size_t at = slot_of(key);
  for (; slots_[at].key != kFree; at = (at + 1) & mask_)
    if (slots_[at].key == key) return false;
  slots_[at] = {key, merge};
  ++count_;
  return true;
}

}  // namespace cheetah
