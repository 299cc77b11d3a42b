// SPDX-License-Identifier: MIT
#include "cluster/transfer/slot_words.h"

#include "base/error.h"

namespace cheetah::cluster::transfer {

bool SlotWords::begin_write(uint32_t slot, uint32_t generation, WriterNumber writer) const {
  return swap(slot, {generation, kSelf, SlotState::kOpen}, {generation, writer, SlotState::kBusy});
}

bool SlotWords::wanted(uint32_t slot, uint32_t generation, WriterNumber writer) const {
  return load(slot) == SlotWord{generation, writer, SlotState::kBusy};
}

bool SlotWords::finish_write(uint32_t slot, uint32_t generation, WriterNumber writer) const {
  if (swap(slot, {generation, writer, SlotState::kBusy}, {generation, writer, SlotState::kLanded}))
    return true;
  swap(slot, {generation, writer, SlotState::kClosing}, {generation, kSelf, SlotState::kFree});
  return false;
}

void SlotWords::abandon_write(uint32_t slot, uint32_t generation, WriterNumber writer) const {
  if (swap(slot, {generation, writer, SlotState::kBusy}, {generation, kSelf, SlotState::kOpen})) return;
  swap(slot, {generation, writer, SlotState::kClosing}, {generation, kSelf, SlotState::kFree});
}

bool SlotWords::begin_check(uint32_t slot, uint32_t generation, WriterNumber writer) const {
  return swap(slot, {generation, writer, SlotState::kLanded}, {generation, kSelf, SlotState::kLanded});
}

bool SlotWords::finish_check(uint32_t slot, uint32_t generation, bool good) const {
  const SlotState next = good ? SlotState::kChecked : SlotState::kOpen;
  if (swap(slot, {generation, kSelf, SlotState::kLanded}, {generation, kSelf, next})) return true;
  swap(slot, {generation, kSelf, SlotState::kClosing}, {generation, kSelf, SlotState::kFree});
  return false;
}

void SlotWords::open(uint32_t slot, uint32_t generation) const {
  words_[slot].store(SlotWord{generation, kSelf, SlotState::kOpen}.packed(), std::memory_order_release);
}

bool SlotWords::close(uint32_t slot, uint32_t generation) const {
  for (;;) {  // each turn but the last means that another thread moved the slot on: a few at most
    const SlotWord word = load(slot);
    if (word.generation != generation || word.state == SlotState::kFree) return true;
    if (word.state == SlotState::kClosing) return false;
    const bool checking = word.state == SlotState::kLanded && word.writer == kSelf;
    const bool held = word.state == SlotState::kBusy || checking;
    const SlotWord next{
        generation, held ? word.writer : kSelf, held ? SlotState::kClosing : SlotState::kFree};
    if (swap(slot, word, next)) return !held;
  }
}

bool SlotWords::checked(uint32_t slot, uint32_t generation) const {
  return load(slot) == SlotWord{generation, kSelf, SlotState::kChecked};
}

bool SlotWords::renew(uint32_t slot, uint32_t generation, uint32_t next) const {
  return swap(slot, {generation, kSelf, SlotState::kOpen}, {next, kSelf, SlotState::kOpen});
}

void SlotWords::forget_writer(WriterNumber writer) const {
  CHEETAH_ASSERT(writer != kSelf, "the receiver does not forget itself");
  for (uint32_t slot = 0; slot < words_.size(); ++slot) {
    for (;;) {
      const SlotWord word = load(slot);
      if (word.writer != writer) break;
      const SlotState next = word.state == SlotState::kClosing ? SlotState::kFree : SlotState::kOpen;
      if (swap(slot, word, {word.generation, kSelf, next})) break;
    }
  }
}

}  // namespace cheetah::cluster::transfer
