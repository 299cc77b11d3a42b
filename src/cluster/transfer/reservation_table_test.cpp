// SPDX-License-Identifier: MIT
#include "cluster/transfer/reservation_table.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "cluster/transfer/checksum.h"
#include "cluster/transfer/heap_arena.h"
#include "cluster/transfer/slot_copy.h"
#include "cluster/transfer/transfer_fixture.h"

namespace cheetah::cluster::transfer {
namespace {

constexpr WriterNumber kWriter = 3;
constexpr RequestKey kKey{RequestUid{7}, Attempt{1}};

// What a transport does with a slab, step by step.
struct Bench {
  HeapArena arena{6, 4096};
  ReservationTable table{WorkerId{1}, arena.view(), std::chrono::seconds(5)};
  Time now{};

  static Ticket::Slot slot_of(const Reservation& reserved, size_t index) {
    return parse_ticket(reserved.ticket).slots.at(index);
  }
  SlabLanded land(Ticket::Slot slot, std::span<const std::byte> bytes, uint64_t sum) {
    const ArenaView view = arena.view();
    EXPECT_TRUE(view.words.begin_write(slot.slot, slot.generation, kWriter));
    std::ranges::copy(bytes, view.slot(slot.slot));
    EXPECT_TRUE(view.words.finish_write(slot.slot, slot.generation, kWriter));
    EXPECT_TRUE(view.words.begin_check(slot.slot, slot.generation, kWriter));
    const SlabNotice notice{TransferId{1}, slot.slot, slot.generation, std::ssize(bytes), sum, {}};
    const bool good = is_intact(notice, view);
    EXPECT_TRUE(view.words.finish_check(slot.slot, slot.generation, good));
    return {WorkerId{2}, notice, good};
  }
};

TEST(ReservationTable, ADamagedSlabDoesNotCountAndItsSlotTakesAnother) {
  Bench bench;
  const auto reserved = bench.table.reserve(kKey, 2, bench.now + std::chrono::hours(1));
  const Ticket::Slot slot = Bench::slot_of(*reserved, 1);
  auto bytes = pattern_bytes(3000, 1);
  const uint64_t right = checksum(bytes);
  bytes[1234] ^= std::byte{4};
  const auto first = bench.table.landed(bench.land(slot, bytes, right), bench.now);
  ASSERT_TRUE(first && std::holds_alternative<SlabDamaged>(*first));
  EXPECT_FALSE(bench.table.slab(reserved->id, 1));
  bytes[1234] ^= std::byte{4};
  const auto second = bench.table.landed(bench.land(slot, bytes, right), bench.now);
  ASSERT_TRUE(second && std::holds_alternative<SlabArrived>(*second));
  EXPECT_TRUE(std::ranges::equal(*bench.table.slab(reserved->id, 1), bytes));
}

TEST(ReservationTable, OneThatIsBeingFilledIsNotDisturbedByCollectingForAnother) {
  Bench bench;
  bench.now += std::chrono::hours(1);
  const auto reserved = bench.table.reserve(kKey, 2, bench.now + std::chrono::hours(1));
  const auto bytes = pattern_bytes(3000, 1);
  bench.table.landed(bench.land(Bench::slot_of(*reserved, 0), bytes, checksum(bytes)), bench.now);
  std::vector<TransferEvent> events;
  bench.table.collect(Time::min(), events);  // as an agent does when no time has passed that it knows of
  EXPECT_TRUE(events.empty());
  EXPECT_TRUE(bench.table.slab(reserved->id, 0));
}

TEST(ReservationTable, WhatSomebodyReadsIsNotGivenAwayWhateverHappens) {
  Bench bench;
  const auto reserved = bench.table.reserve(kKey, 6, bench.now + std::chrono::seconds(1));
  const auto bytes = pattern_bytes(3000, 1);
  bench.table.landed(bench.land(Bench::slot_of(*reserved, 0), bytes, checksum(bytes)), bench.now);
  const auto slab = *bench.table.slab(reserved->id, 0);
  bench.table.hold(reserved->id);
  std::vector<TransferEvent> events;
  bench.table.collect(bench.now + std::chrono::hours(1), events);  // long overdue
  bench.table.release(reserved->id);
  bench.table.collect(bench.now, events);
  EXPECT_EQ(bench.table.free_slots(), 0);
  EXPECT_FALSE(bench.table.reserve(kKey, 1, bench.now));
  EXPECT_TRUE(std::ranges::equal(slab, bytes));
  bench.table.let_go(reserved->id);
  bench.table.collect(bench.now, events);
  EXPECT_EQ(bench.table.free_slots(), 6);
  EXPECT_TRUE(std::holds_alternative<ReservationFreed>(events.back()));
  bench.table.check_invariants();
}

TEST(ReservationTable, AHeldSlotStaysInQuarantineAndTheOthersAreFree) {
  Bench bench;
  const auto reserved = bench.table.reserve(kKey, 3, bench.now + std::chrono::hours(1));
  const Ticket::Slot held = Bench::slot_of(*reserved, 1);
  const SlotWords words = bench.arena.view().words;
  ASSERT_TRUE(words.begin_write(held.slot, held.generation, kWriter));
  bench.table.release(reserved->id);
  std::vector<TransferEvent> events;
  bench.table.collect(bench.now, events);
  EXPECT_TRUE(events.empty());
  EXPECT_EQ(bench.table.free_slots(), 5);
  EXPECT_EQ(bench.table.status().at(0).state, ReservationState::kQuarantined);
  words.finish_write(held.slot, held.generation, kWriter);
  bench.table.collect(bench.now, events);
  EXPECT_EQ(events.size(), 1u);
  EXPECT_EQ(bench.table.free_slots(), 6);
}

TEST(ReservationTable, WhateverHappensNoSlotIsLostOrGivenTwice) {
  EXPECT_TRUE(rc::check([] {
    Bench bench;
    std::vector<Reservation> live;
    std::vector<std::pair<Ticket::Slot, bool>> writes;  // in progress
    const SlotWords words = bench.arena.view().words;
    std::vector<TransferEvent> events;
    for (const int action : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 6))) {
      const size_t pick = *rc::gen::inRange<size_t>(0, 6);
      if (action == 0) {
        const auto slabs = static_cast<uint32_t>(pick);
        const bool fits = slabs > 0 && bench.table.free_slots() >= slabs;
        auto reserved = bench.table.reserve(kKey, slabs, bench.now + std::chrono::seconds(3));
        RC_ASSERT(reserved.has_value() == fits);
        if (reserved) live.push_back(*reserved);
      } else if (action == 1 && !live.empty()) {
        bench.table.release(live[pick % live.size()].id);
      } else if (action == 2 && !live.empty()) {  // any ticket ever given, stale ones too
        const auto slots = parse_ticket(live[pick % live.size()].ticket).slots;
        const Ticket::Slot slot = slots[pick % slots.size()];
        if (words.begin_write(slot.slot, slot.generation, kWriter)) writes.emplace_back(slot, false);
      } else if (action == 3 && !writes.empty()) {
        const Ticket::Slot slot = writes.back().first;
        writes.pop_back();
        if (words.finish_write(slot.slot, slot.generation, kWriter))
          if (words.begin_check(slot.slot, slot.generation, kWriter) &&
              words.finish_check(slot.slot, slot.generation, true))
            bench.table.landed(
                {WorkerId{2}, {TransferId{1}, slot.slot, slot.generation, 10, 0, {}}, true}, bench.now);
      } else if (action == 4) {
        bench.now += std::chrono::seconds(1);
      } else {
        words.forget_writer(kWriter);
        writes.clear();
      }
      bench.table.collect(bench.now, events);
      bench.table.check_invariants();
      for (const auto& [slot, done] : writes)  // no slot is given away while it is written
        RC_ASSERT(words.load(slot.slot).generation == slot.generation);
    }
    words.forget_writer(kWriter);
    for (const Reservation& reserved : live) bench.table.release(reserved.id);
    bench.table.collect(bench.now, events);
    RC_ASSERT(bench.table.free_slots() == 6);
  }));
}

}  // namespace
}  // namespace cheetah::cluster::transfer
