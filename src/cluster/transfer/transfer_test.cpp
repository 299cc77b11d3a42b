// SPDX-License-Identifier: MIT
// What every backend must do.
#include "cluster/transfer/transfer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "cluster/transfer/checksum.h"
#include "cluster/transfer/transfer_fixture.h"

namespace cheetah::cluster {
namespace {

class TransferPair : public TransferTest {
 protected:
  void SetUp() override {
    receiver_.emplace(config(1));
    sender_.emplace(config(2));
    (*sender_)->add_peer(kReceiver, (*receiver_)->describe());
  }
  TestAgent& receiver() { return *receiver_; }
  TestAgent& sender() { return *sender_; }
  TransferId push(std::string_view ticket, uint32_t index, const std::vector<std::byte>& bytes,
      std::string_view notify = {}) {
    return sender()->push(
        {.to = kReceiver, .ticket = ticket, .index = index, .pieces = {bytes}, .notify = notify});
  }
  std::vector<std::byte> slab(ReservationId id, uint32_t index) {
    const auto bytes = receiver()->slab(id, index);
    return bytes ? std::vector<std::byte>(bytes->begin(), bytes->end()) : std::vector<std::byte>();
  }

  std::optional<TestAgent> receiver_, sender_;
};

TEST_P(TransferPair, APushedSlabArrivesWithItsNotificationAndIsThereWhenTheSenderHearsOfIt) {
  const auto reserved = receiver()->reserve(kKey, 2, soon());
  ASSERT_TRUE(reserved);
  const auto bytes = pattern_bytes(40'000, 3);
  const TransferId id = push(reserved->ticket, 1, bytes, "pages 8 to 15");
  const PushDone* done = sender().await_done(id);
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->done) << done->why;
  EXPECT_EQ(done->checksum, transfer::checksum(bytes));
  EXPECT_EQ(slab(reserved->id, 1), bytes);
  EXPECT_FALSE(receiver()->slab(reserved->id, 0));
  const auto* arrived = receiver().await<SlabArrived>();
  ASSERT_TRUE(arrived);
  EXPECT_EQ(arrived->reservation, reserved->id);
  EXPECT_EQ(arrived->key, kKey);
  EXPECT_EQ(arrived->from, kSender);
  EXPECT_EQ(arrived->index, 1u);
  EXPECT_EQ(arrived->bytes, 40'000);
  EXPECT_EQ(arrived->notify, "pages 8 to 15");
}

TEST_P(TransferPair, PiecesAreGatheredInOrder) {
  const auto reserved = receiver()->reserve(kKey, 1, soon());
  const auto a = pattern_bytes(33, 1), b = pattern_bytes(0, 2), c = pattern_bytes(20'001, 3);
  const TransferId id = sender()->push({.to = kReceiver, .ticket = reserved->ticket, .pieces = {a, b, c}});
  const PushDone* done = sender().await_done(id);
  ASSERT_TRUE(done && done->done);
  std::vector<std::byte> all = a;
  all.insert(all.end(), c.begin(), c.end());
  EXPECT_EQ(slab(reserved->id, 0), all);
}

TEST_P(TransferPair, EmptyAndFullSlabsArrive) {
  const auto reserved = receiver()->reserve(kKey, 2, soon());
  const auto empty = pattern_bytes(0, 1), full = pattern_bytes(kTestSlotBytes, 2);
  const TransferId first = push(reserved->ticket, 0, empty), second = push(reserved->ticket, 1, full);
  ASSERT_TRUE(sender().lands(first));
  ASSERT_TRUE(sender().lands(second));
  EXPECT_EQ(slab(reserved->id, 0).size(), 0u);
  EXPECT_EQ(slab(reserved->id, 1), full);
}

TEST_P(TransferPair, ManySlabsInFlightAllArriveOnce) {
  std::vector<std::vector<std::byte>> sent;
  for (int round = 0; round < 5; ++round) {
    const auto reserved = receiver()->reserve(kKey, kTestSlots, soon());
    ASSERT_TRUE(reserved) << round;
    EXPECT_FALSE(receiver()->reserve(kKey, 1, soon())) << "the arena is full";
    std::vector<TransferId> ids;
    sent.clear();
    for (uint32_t i = 0; i < kTestSlots; ++i)
      sent.push_back(
          pattern_bytes(1 + (i * 7919 + static_cast<uint32_t>(round) * 104729) % kTestSlotBytes, i));
    for (uint32_t i = 0; i < kTestSlots; ++i) ids.push_back(push(reserved->ticket, i, sent[i]));
    for (const TransferId id : ids) ASSERT_TRUE(sender().lands(id));
    for (uint32_t i = 0; i < kTestSlots; ++i) EXPECT_EQ(slab(reserved->id, i), sent[i]);
    receiver()->release(reserved->id);
    EXPECT_EQ(receiver()->free_slots(), kTestSlots);
  }
  receiver().poll();
  EXPECT_EQ(std::ranges::count_if(receiver().events(),
                [](const auto& event) { return std::holds_alternative<SlabArrived>(event); }),
      5 * kTestSlots);
}

TEST_P(TransferPair, ASlabThatIsThereIsNotWrittenAgain) {
  const auto reserved = receiver()->reserve(kKey, 1, soon());
  const auto first = pattern_bytes(1000, 1), second = pattern_bytes(1000, 2);
  ASSERT_TRUE(sender().lands(push(reserved->ticket, 0, first)));
  const PushDone* again = sender().await_done(push(reserved->ticket, 0, second));
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->done);
  EXPECT_FALSE(again->why.empty());
  EXPECT_EQ(slab(reserved->id, 0), first);
}

TEST_P(TransferPair, AStaleTicketWritesNothingIntoTheNextReservation) {
  const auto old = receiver()->reserve(kKey, kTestSlots, soon());
  receiver()->cancel(old->id);
  receiver().poll();
  ASSERT_TRUE(receiver().seen<ReservationFreed>());
  const auto next = receiver()->reserve(kKey, kTestSlots, soon());
  ASSERT_TRUE(next);
  const auto bytes = pattern_bytes(5000, 1);
  for (uint32_t i = 0; i < kTestSlots; ++i) {
    const PushDone* done = sender().await_done(push(old->ticket, i, bytes));
    ASSERT_TRUE(done);
    EXPECT_FALSE(done->done);
  }
  for (uint32_t i = 0; i < kTestSlots; ++i) EXPECT_FALSE(receiver()->slab(next->id, i));
  EXPECT_EQ(receiver()->reservations().at(0).state, ReservationState::kReserved);
}

TEST_P(TransferPair, AReservationPastItsDeadlineIsGivenUpAndFreed) {
  const Time now = std::chrono::steady_clock::now();
  const auto reserved = receiver()->reserve(kKey, 2, now + std::chrono::hours(1));
  const auto bytes = pattern_bytes(100, 1);
  ASSERT_TRUE(sender().lands(push(reserved->ticket, 0, bytes)));
  receiver().poll(now);
  EXPECT_FALSE(receiver().seen<ReservationStalled>());
  receiver().poll(now + std::chrono::hours(2));
  ASSERT_TRUE(receiver().seen<ReservationStalled>());
  EXPECT_TRUE(receiver().seen<ReservationFreed>());
  EXPECT_EQ(receiver()->free_slots(), kTestSlots);
}

TEST_P(TransferPair, AReservationThatStallsBetweenSlabsIsGivenUp) {
  const auto reserved =
      receiver()->reserve(kKey, 2, std::chrono::steady_clock::now() + std::chrono::hours(1));
  const auto bytes = pattern_bytes(100, 1);
  ASSERT_TRUE(sender().lands(push(reserved->ticket, 0, bytes)));
  ASSERT_TRUE(receiver().await<SlabArrived>());
  receiver().poll(std::chrono::steady_clock::now() + std::chrono::minutes(1));
  const auto* stalled = receiver().seen<ReservationStalled>();
  ASSERT_TRUE(stalled);
  EXPECT_NE(stalled->why.find("1 of 2"), std::string::npos);
}

TEST_P(TransferPair, ACompleteReservationOutlivesItsDeadlineUntilItIsReleased) {
  const auto reserved = receiver()->reserve(kKey, 1, soon());
  const auto bytes = pattern_bytes(100, 1);
  ASSERT_TRUE(sender().lands(push(reserved->ticket, 0, bytes)));
  ASSERT_TRUE(receiver().await<SlabArrived>());
  receiver().poll(std::chrono::steady_clock::now() + std::chrono::hours(5));
  EXPECT_FALSE(receiver().seen<ReservationStalled>());
  EXPECT_EQ(slab(reserved->id, 0), bytes);
  EXPECT_EQ(receiver()->reservations().at(0).state, ReservationState::kComplete);
}

TEST_P(TransferPair, ASlabCanBePulledFromWhatThePeerExports) {
  const auto a = pattern_bytes(30'000, 1), b = pattern_bytes(12'345, 2);
  const auto exported = sender()->export_slabs({{a}, {b, a}}, MemoryKind::kHost);
  receiver()->add_peer(kSender, sender()->describe());
  const auto reserved = receiver()->reserve(kKey, 1, soon());
  const TransferId id =
      receiver()->pull({.from = kSender, .exported = exported.ticket, .index = 1, .into = reserved->id});
  const PushDone* done = nullptr;
  for (int i = 0; i < 3000 && !done; ++i) {
    sender().poll();
    receiver().poll();
    done = receiver().seen<PushDone>([&](const PushDone& event) { return event.id == id; });
    receiver()->wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->done) << done->why;
  std::vector<std::byte> all = b;
  all.insert(all.end(), a.begin(), a.end());
  EXPECT_EQ(slab(reserved->id, 0), all);
  sender()->unexport(exported.id);
  EXPECT_TRUE(sender().await<ExportFreed>());
  EXPECT_FALSE(sender().seen<PushDone>()) << "only the one who asked hears of it";
}

TEST_P(TransferPair, APullOfWhatIsNoLongerExportedIsRefused) {
  const auto a = pattern_bytes(100, 1);
  const auto exported = sender()->export_slabs({{a}}, MemoryKind::kHost);
  sender()->unexport(exported.id);
  receiver()->add_peer(kSender, sender()->describe());
  const auto reserved = receiver()->reserve(kKey, 1, soon());
  receiver()->pull({.from = kSender, .exported = exported.ticket, .into = reserved->id});
  for (int i = 0; i < 3000 && !receiver().seen<PushDone>(); ++i) {
    sender().poll();
    receiver().poll();
    receiver()->wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(receiver().seen<PushDone>());
  EXPECT_FALSE(receiver().seen<PushDone>()->done);
  receiver()->cancel(reserved->id);
  EXPECT_EQ(receiver()->free_slots(), kTestSlots);
}

TEST_P(TransferPair, ACancelledPushEndsOnceAndLeavesTheSlotUsable) {
  const auto reserved = receiver()->reserve(kKey, 1, soon());
  const auto bytes = pattern_bytes(kTestSlotBytes, 1);
  const TransferId id = push(reserved->ticket, 0, bytes);
  sender()->cancel(id);
  const PushDone* done = sender().await_done(id);
  ASSERT_TRUE(done);
  if (!done->done) {
    const TransferId again = push(reserved->ticket, 0, bytes);
    ASSERT_TRUE(sender().lands(again));
  }
  EXPECT_EQ(slab(reserved->id, 0), bytes);
}

TEST_P(TransferPair, BothDirectionsWorkOverTheOneConnection) {
  const auto there = receiver()->reserve(kKey, 1, soon());
  const auto bytes = pattern_bytes(999, 1);
  ASSERT_TRUE(sender().lands(push(there->ticket, 0, bytes)));
  const auto back = sender()->reserve(kKey, 1, soon());
  const TransferId id = receiver()->push({.to = kSender, .ticket = back->ticket, .pieces = {bytes}});
  const PushDone* done = receiver().await_done(id);
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->done) << done->why;
}

TEST_P(TransferPair, APeerThatLeavesIsReportedAndItsReservationsCanBeFreed) {
  const auto reserved = receiver()->reserve(kKey, 2, soon());
  const auto bytes = pattern_bytes(100, 1);
  ASSERT_TRUE(sender().lands(push(reserved->ticket, 0, bytes)));
  sender().destroy();
  const auto* down = receiver().await<TransferPeerDown>();
  ASSERT_TRUE(down);
  EXPECT_EQ(down->peer, kSender);
  receiver()->cancel(reserved->id);
  EXPECT_EQ(receiver()->free_slots(), kTestSlots);
}

TEST_P(TransferPair, PushesToAReceiverThatLeftEnd) {
  const auto reserved = receiver()->reserve(kKey, 1, soon());
  const auto bytes = pattern_bytes(100, 1);
  ASSERT_TRUE(sender().lands(push(reserved->ticket, 0, bytes)));
  receiver().destroy();
  const PushDone* done = sender().await_done(push(reserved->ticket, 0, bytes));
  ASSERT_TRUE(done);
  EXPECT_FALSE(done->done);
  EXPECT_TRUE(sender().await<TransferPeerDown>());
}

TEST_P(TransferPair, APeerThatHasLongLeftCannotBeReachedAndPushesToItEnd) {
  const std::string stale = receiver()->describe();
  const auto reserved = receiver()->reserve(kKey, 1, soon());
  receiver().destroy();
  TestAgent late(config(4));
  late->add_peer(kReceiver, stale);
  const auto bytes = pattern_bytes(100, 1);
  const TransferId id = late->push({.to = kReceiver, .ticket = reserved->ticket, .pieces = {bytes}});
  const PushDone* done = late.await_done(id);
  ASSERT_TRUE(done);
  EXPECT_FALSE(done->done);
  EXPECT_TRUE(late.await<TransferPeerDown>());
}

// UCX's own thread and its half-made connections are at work in every one of these moments.
TEST_P(TransferPair, APeerMayLeaveAtAnyMomentWhileItIsBeingReached) {
  for (int moment = 0; moment < 40; ++moment) {
    TestAgent leaving(config(4)), reaching(config(5));
    reaching->add_peer(WorkerId{4}, leaving->describe());
    std::this_thread::sleep_for(std::chrono::microseconds(50 * moment));
    leaving.destroy();
    ASSERT_TRUE(reaching.await<TransferPeerDown>()) << moment;
  }
}

TEST_P(TransferPair, ADroppedPeerIsConfirmedAndCanComeBack) {
  const auto reserved = receiver()->reserve(kKey, 2, soon());
  const auto bytes = pattern_bytes(100, 1);
  const PushDone* first = sender().await_done(push(reserved->ticket, 0, bytes));
  ASSERT_TRUE(first && first->done);
  receiver()->drop_peer(kSender);
  ASSERT_TRUE(receiver().await<TransferPeerDown>());
  ASSERT_TRUE(sender().await<TransferPeerDown>());
  sender()->add_peer(kReceiver, receiver()->describe());
  const PushDone* second = sender().await_done(push(reserved->ticket, 1, bytes));
  ASSERT_TRUE(second);
  EXPECT_TRUE(second->done) << second->why;
}

TEST_P(TransferPair, DroppingAPeerNobodyKnowsIsConfirmedToo) {
  receiver()->drop_peer(WorkerId{77});
  const auto* down = receiver().await<TransferPeerDown>();
  ASSERT_TRUE(down);
  EXPECT_EQ(down->peer, WorkerId{77});
}

TEST_P(TransferPair, APeerWithAnotherSecretIsNotAccepted) {
  TransferConfig stranger_config = config(3);
  stranger_config.credentials = shared_secret("a guess");
  TestAgent stranger(stranger_config);
  const auto reserved = receiver()->reserve(kKey, 1, soon());
  const auto bytes = pattern_bytes(100, 1);
  stranger->add_peer(kReceiver, receiver()->describe());
  const TransferId id = stranger->push({.to = kReceiver, .ticket = reserved->ticket, .pieces = {bytes}});
  const PushDone* done = stranger.await_done(id);
  ASSERT_TRUE(done);
  EXPECT_FALSE(done->done);
  // Refused while it waited, or so soon that there was nobody to push to any more.
  EXPECT_TRUE(
      done->why.find("secret") != std::string::npos || done->why.find("not connected") != std::string::npos)
      << done->why;
  receiver().poll();
  EXPECT_FALSE(receiver().seen<TransferPeerDown>()) << "a stranger is nobody's peer";
  EXPECT_FALSE(receiver()->slab(reserved->id, 0));
}

TEST_P(TransferPair, WhatDoesNotFitItsTicketIsRefusedAtOnce) {
  const auto reserved = receiver()->reserve(kKey, 1, soon());
  const auto large = pattern_bytes(kTestSlotBytes + 1, 1), small = pattern_bytes(1, 1);
  const std::string huge(kMaxNotifyBytes + 1, 'x');
  for (const TransferId id :
      {push(reserved->ticket, 0, large), push(reserved->ticket, 1, small), push("", 0, small),
          push("nonsense that is no ticket", 0, small), push(reserved->ticket, 0, small, huge)}) {
    const PushDone* done = sender().await_done(id);
    ASSERT_TRUE(done);
    EXPECT_FALSE(done->done);
    EXPECT_FALSE(done->why.empty());
  }
}

TEST_P(TransferPair, DescriptionsAreCheckedBeforeAnythingIsDone) {
  const std::string good = receiver()->describe();
  EXPECT_THROW(sender()->add_peer(WorkerId{9}, good), Error);
  EXPECT_THROW(sender()->add_peer(kReceiver, ""), Error);
  for (size_t cut = 0; cut < good.size(); ++cut)
    EXPECT_THROW(sender()->add_peer(kReceiver, good.substr(0, cut)), Error) << cut;
}

TEST_P(TransferPair, OnReadyIsCalledWhenThereIsSomethingToPoll) {
  std::atomic<int> calls = 0;
  receiver()->on_ready([&] { ++calls; });
  const auto reserved = receiver()->reserve(kKey, 1, soon());
  const auto bytes = pattern_bytes(100, 1);
  ASSERT_TRUE(sender().lands(push(reserved->ticket, 0, bytes)));
  EXPECT_GE(calls.load(), 1);
  receiver()->on_ready(nullptr);
}

TEST_P(TransferPair, RegisteredMemoryCanBePushedAndUnregistered) {
  auto bytes = pattern_bytes(50'000, 1);
  const MemoryHandle handle = sender()->register_memory(bytes, MemoryKind::kHost);
  const auto reserved = receiver()->reserve(kKey, 1, soon());
  ASSERT_TRUE(sender().lands(push(reserved->ticket, 0, bytes)));
  EXPECT_EQ(slab(reserved->id, 0), bytes);
  sender()->unregister_memory(handle);
}

TEST(TransferAgent, WhatCannotBeMadeIsRefusedInOneSentence) {
  TransferConfig config;
  config.backend = TransferBackend::kSharedMemory;
  config.num_slots = 0;
  EXPECT_THROW(make_transfer_agent(config), Error);
  config.num_slots = 1;
  config.slot_bytes = int64_t{1} << 62;
  EXPECT_THROW(make_transfer_agent(config), Error);
  config.slot_bytes = 4096;
  config.backend = TransferBackend::kInProcess;
  EXPECT_THROW(make_transfer_agent(config), Error) << "no fabric";
  config.backend = TransferBackend::kUcx;
  config.host = "no address";
  EXPECT_THROW(make_transfer_agent(config), Error);
}

INSTANTIATE_TEST_SUITE_P(Backends, TransferPair, testing::ValuesIn(available_backends()), test_name_of);

}  // namespace
}  // namespace cheetah::cluster
