// SPDX-License-Identifier: MIT
// The parts below the agents: checksums, slot words, slabs, and every reader of bytes from outside.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>

#include "base/error.h"
#include "cluster/transfer/checksum.h"
#include "cluster/transfer/heap_arena.h"
#include "cluster/transfer/sealed_slab.h"
#include "cluster/transfer/slab.h"
#include "cluster/transfer/slot_words.h"
#include "cluster/transfer/transfer_fixture.h"
#include "cluster/transfer/transfer_wire.h"

namespace cheetah::cluster::transfer {
namespace {

TEST(TransferChecksum, PiecesOfAnySizeGiveTheSameValue) {
  EXPECT_TRUE(rc::check([] {
    const auto bytes = pattern_bytes(*rc::gen::inRange<size_t>(0, 700), 5);
    Checksum sum;
    for (size_t at = 0; at < bytes.size();) {
      const size_t piece = std::min(*rc::gen::inRange<size_t>(0, 90), bytes.size() - at);
      sum.update(std::span(bytes).subspan(at, piece));
      at += std::max<size_t>(piece, 0);
      if (piece == 0) sum.update({});
    }
    RC_ASSERT(sum.value() == checksum(bytes));
  }));
}

TEST(TransferChecksum, CopyingAlongChangesNeitherTheValueNorTheBytes) {
  const auto bytes = pattern_bytes(600'000, 3);
  for (const size_t first :
      {size_t{0}, size_t{5}, size_t{32}, size_t{150'000}, size_t{300'001}, bytes.size()})
    for (const size_t shift : {size_t{0}, size_t{1}, size_t{16}}) {
      std::vector<std::byte> copy(bytes.size() + 64);
      std::byte* const to = copy.data() + 16 - reinterpret_cast<uintptr_t>(copy.data()) % 16 + shift;
      Checksum sum;
      sum.update_and_copy(std::span(bytes).first(first), to);
      sum.update_and_copy(std::span(bytes).subspan(first), to + first);
      EXPECT_EQ(sum.value(), checksum(bytes));
      EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), to)) << first << " " << shift;
    }
}

TEST(TransferChecksum, EveryFlippedBitAndEveryLengthChangesIt) {
  auto bytes = pattern_bytes(100, 9);
  const uint64_t right = checksum(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte(1u << bit % 8);
    EXPECT_NE(checksum(bytes), right) << bit;
    bytes[bit / 8] ^= std::byte(1u << bit % 8);
  }
  const std::vector<std::byte> zeros(200);
  for (size_t length = 1; length < zeros.size(); ++length)
    EXPECT_NE(checksum(std::span(zeros).first(length)), checksum(std::span(zeros).first(length - 1)));
}

TEST(TransferChecksum, TheInstructionAndTheTableAgree) {
  // CRC32C of "123456789" is 0xE3069283 in every description of it; eight bytes here, by the same polynomial.
  uint64_t word;
  std::memcpy(&word, "12345678", sizeof word);
  uint32_t crc = crc32c_word_plain(~0u, word);
  EXPECT_EQ(~crc, 0x6087809Au);
}

TEST(SlotWords, AWriterThatWasGivenUpFreesTheSlotWhenItEnds) {
  std::array<AtomicSlot, 2> memory{};
  const SlotWords words(memory);
  words.open(0, 7);
  EXPECT_FALSE(words.begin_write(0, 6, 3)) << "a stale ticket";
  ASSERT_TRUE(words.begin_write(0, 7, 3));
  EXPECT_FALSE(words.begin_write(0, 7, 4)) << "one writer at a time";
  EXPECT_FALSE(words.close(0, 7)) << "quarantine";
  EXPECT_FALSE(words.wanted(0, 7, 3));
  EXPECT_FALSE(words.finish_write(0, 7, 3));
  EXPECT_TRUE(words.close(0, 7));
}

TEST(SlotWords, AWriterThatDiedLeavesNothingHeld) {
  std::array<AtomicSlot, 3> memory{};
  const SlotWords words(memory);
  for (uint32_t slot = 0; slot < 3; ++slot) {
    words.open(slot, 9);
    ASSERT_TRUE(words.begin_write(slot, 9, 5));
  }
  EXPECT_TRUE(words.finish_write(1, 9, 5));
  EXPECT_FALSE(words.close(2, 9));
  words.forget_writer(5);
  EXPECT_EQ(words.load(0).state, SlotState::kOpen);
  EXPECT_EQ(words.load(1).state, SlotState::kOpen) << "landed, but its notice never came";
  EXPECT_EQ(words.load(2).state, SlotState::kFree);
}

TEST(SlotWords, ASlotIsNotFreedWhileItIsChecked) {
  std::array<AtomicSlot, 1> memory{};
  const SlotWords words(memory);
  words.open(0, 1);
  ASSERT_TRUE(words.begin_write(0, 1, 2) && words.finish_write(0, 1, 2) && words.begin_check(0, 1, 2));
  EXPECT_FALSE(words.close(0, 1));
  EXPECT_FALSE(words.finish_check(0, 1, true));
  EXPECT_TRUE(words.close(0, 1));
}

TEST(TransferWire, WhatIsEncodedIsReadBack) {
  const Ticket ticket{WorkerId{5}, ReservationId{6}, 1 << 20, {{1, 2}, {3, 4}}};
  EXPECT_EQ(parse_ticket(encode(ticket)), ticket);
  const AgentDescription description{TransferBackend::kUcx, WorkerId{9}, "127.0.0.1:77"};
  EXPECT_EQ(parse_description(encode(description)), description);
  const ExportTicket exported{WorkerId{1}, ExportId{2}, 3, 4};
  EXPECT_EQ(parse_export_ticket(encode(exported)), exported);
  const auto notice = std::get<SlabNotice>(
      parse_agent_message(encode(AgentMessage(SlabNotice{TransferId{1}, 2, 3, 4, 5, "hello"}))));
  EXPECT_EQ(notice.notify, "hello");
  EXPECT_EQ(notice.checksum, 5u);
}

TEST(TransferWire, BytesFromOutsideEndInAnErrorAtWorst) {
  std::vector<std::string> seeds{encode(Ticket{WorkerId{5}, ReservationId{6}, 1 << 20, {{1, 2}, {3, 4}}}),
      encode(AgentDescription{TransferBackend::kUcx, WorkerId{9}, "127.0.0.1:77"}),
      encode(ExportTicket{WorkerId{1}, ExportId{2}, 3, 4}), encode(AgentMessage(AgentWelcome{})),
      encode(AgentMessage(SlabNotice{TransferId{1}, 2, 3, 4, 5, "hello"})), encode(AgentMessage(SlabAck{})),
      encode(AgentMessage(PullRequest{}))};
  const auto feed = [](const std::string& bytes) {
    const auto quietly = [&](auto&& parse) {
      try {
        static_cast<void>(parse());
      } catch (const Error&) {
      }
    };
    quietly([&] { return parse_ticket(bytes); });
    quietly([&] { return parse_description(bytes); });
    quietly([&] { return parse_export_ticket(bytes); });
    quietly([&] { return parse_agent_message(bytes); });
    quietly([&] { return parse_slab(std::as_bytes(std::span(bytes))); });
  };
  for (const std::string& seed : seeds)
    for (size_t i = 0; i <= seed.size(); ++i) {
      feed(seed.substr(0, i));
      for (const int value : {0, 1, 0x7F, 0x80, 0xFF}) {
        std::string changed = seed;
        if (i < changed.size()) changed[i] = static_cast<char>(value);
        feed(changed + (i == changed.size() ? "x" : ""));
      }
    }
}

// The two ends of an established session.
struct Ends {
  Session a{{.self = WorkerId{1}, .credentials = shared_secret("s"), .dials = true, .purpose = "p"}},
      b{{.self = WorkerId{2}, .credentials = shared_secret("s"), .purpose = "p"}};
  Ends() {
    std::vector<Packet> none;
    for (std::string to_b = a.opening(), to_a; !to_b.empty(); to_b.clear(), a.receive(to_a, to_b, none)) {
      to_a.clear();
      b.receive(to_b, to_a, none);
    }
  }
};

TEST(SealedSlab, OnlyItsReceiverOpensItAndNothingOfItMayChange) {
  Ends ends, others;
  PageKeys sender(ends.a, true);
  const auto receiver = std::make_shared<const PageKeys>(ends.b, false);
  const auto stranger = std::make_shared<const PageKeys>(others.b, false);
  const auto bytes = pattern_bytes(200'000, 3);
  const std::span all(bytes);
  const PushOrder order{.id = TransferId{5},
      .slot = {.slot = 1, .generation = 7},
      .pieces = {all.first(70'001), all.subspan(70'001)},
      .bytes = std::ssize(bytes),
      .notify = "words",
      .cancelled = nullptr};
  const SealedSlab sealed = seal_slab(order, sender), again = seal_slab(order, sender);
  EXPECT_FALSE(std::equal(bytes.begin(), bytes.end(), sealed.bytes.get()));
  EXPECT_FALSE(std::equal(bytes.begin(), bytes.end(), again.bytes.get()));
  EXPECT_NE(sealed.header, again.header);
  EXPECT_EQ(sealed.header.find("words"), std::string::npos);
  HeapArena arena(2, 200'000);
  const ArenaView view = arena.view();
  const auto opens = [&](const std::string& header, const std::shared_ptr<const PageKeys>& keys,
                         size_t flip = ~size_t{0}) {
    std::copy_n(sealed.bytes.get(), bytes.size(), view.slot(1));
    if (flip < bytes.size()) view.slot(1)[flip] ^= std::byte{1};
    try {
      const OpenedNotice opened = open_notice(header, keys);
      EXPECT_EQ(opened.notice.notify, "words");
      EXPECT_EQ(opened.notice.slot, 1u);
      return open_slab(opened.seal, opened.notice, view);
    } catch (const Error&) {
      return false;
    }
  };
  EXPECT_TRUE(opens(sealed.header, receiver));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), view.slot(1)));
  EXPECT_FALSE(opens(sealed.header, stranger));
  EXPECT_FALSE(opens(again.header, receiver)) << "the header of another slab";
  for (const size_t at : {size_t{0}, size_t{100'000}, bytes.size() - 1})
    EXPECT_FALSE(opens(sealed.header, receiver, at));
  for (size_t i = 0; i < sealed.header.size(); ++i) {
    std::string changed = sealed.header;
    changed[i] ^= 1;
    EXPECT_FALSE(opens(changed, receiver)) << i;
    EXPECT_FALSE(opens(sealed.header.substr(0, i), receiver)) << i;
  }
}

TEST(Slabs, CoverAllPagesOnceInSlabsOfAtLeastTheTokensAskedFor) {
  EXPECT_TRUE(rc::check([] {
    SlabShape shape{
        .page_tokens = *rc::gen::element(8, 16, 32, 64, 128), .page_bytes = *rc::gen::inRange(1, 5000)};
    const int64_t pages = *rc::gen::inRange(0, 300);
    shape.slot_bytes = slab_bytes(*rc::gen::inRange(1, 64), shape.page_bytes) +
                       *rc::gen::inRange<int64_t>(0, shape.page_bytes);
    const auto slabs = plan_slabs(pages, shape);
    int64_t next = 0;
    for (size_t i = 0; i < slabs.size(); ++i) {
      RC_ASSERT(slabs[i].first_page == next);
      RC_ASSERT(slabs[i].num_pages > 0);
      RC_ASSERT(slab_bytes(slabs[i].num_pages, shape.page_bytes) <= shape.slot_bytes);
      const bool full = slab_bytes(slabs[i].num_pages + 1, shape.page_bytes) > shape.slot_bytes;
      RC_ASSERT(i + 1 == slabs.size() || full || slabs[i].num_pages * shape.page_tokens >= kMinSlabTokens);
      next += slabs[i].num_pages;
    }
    RC_ASSERT(next == pages);
  }));
}

TEST(Slabs, AHeaderThatDoesNotFitItsBytesIsRefused) {
  SlabHeader header{.uid = 1,
      .attempt = 1,
      .index = 0,
      .first_token = 128,
      .page_tokens = 16,
      .num_pages = 2,
      .page_bytes = 100};
  std::vector<std::byte> bytes(sizeof header + 200);
  std::memcpy(bytes.data(), &header, sizeof header);
  EXPECT_EQ(parse_slab(bytes).page(1).size(), 100u);
  EXPECT_THROW(parse_slab(std::span(bytes).first(bytes.size() - 1)), Error);
  header.num_pages = INT32_MAX;
  header.page_bytes = INT64_MAX;
  std::memcpy(bytes.data(), &header, sizeof header);
  EXPECT_THROW(parse_slab(bytes), Error);
  EXPECT_THROW(plan_slabs(1, {.page_tokens = 16, .page_bytes = 100, .slot_bytes = 100}), Error);
}

}  // namespace
}  // namespace cheetah::cluster::transfer
