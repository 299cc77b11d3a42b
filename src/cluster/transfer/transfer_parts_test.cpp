// The parts below the agents: checksums, slot words, slabs, and every reader of bytes from outside.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>

#include "base/error.h"
#include "cluster/transfer/checksum.h"
#include "cluster/transfer/handshake.h"
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
                                 encode(ExportTicket{WorkerId{1}, ExportId{2}, 3, 4}),
                                 encode(AgentMessage(AgentHello{})),
                                 encode(AgentMessage(AgentWelcome{})),
                                 encode(AgentMessage(SlabNotice{TransferId{1}, 2, 3, 4, 5, "hello"})),
                                 encode(AgentMessage(SlabAck{})),
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

HandshakeSetup with(const char* secret, const char* address = "here") {
  return {.credentials = {.secret = secret}, .address = address};
}

TEST(TransferHandshake, BothSidesAreSureOfEachOtherOnlyWithTheSameSecret) {
  const auto meet = [](const char* here, const char* there) {
    Handshake a = Handshake::connecting(WorkerId{1}, WorkerId{2}, with(here)),
              b = Handshake::listening(WorkerId{2}, with(there));
    const auto challenge = b.handle(*a.first());
    const auto proof = a.handle(*challenge);
    b.handle(*proof);
    return a.authenticated() && b.authenticated();
  };
  EXPECT_TRUE(meet("s", "s"));
  EXPECT_THROW(meet("s", "t"), Error);
}

TEST(TransferHandshake, AProofIsNotGoodASecondTimeNorForAnother) {
  Handshake a = Handshake::connecting(WorkerId{1}, WorkerId{2}, with("s")),
            b = Handshake::listening(WorkerId{2}, with("s"));
  const auto proof = a.handle(*b.handle(*a.first()));
  Handshake later = Handshake::listening(WorkerId{2}, with("s"));
  EXPECT_THROW(later.handle(*proof), Error) << "before the hello";
  later.handle(*a.first());
  EXPECT_THROW(later.handle(*proof), Error) << "of another conversation";
  Handshake wrong = Handshake::listening(WorkerId{3}, with("s"));
  EXPECT_THROW(wrong.handle(*a.first()), Error) << "meant for another";
}

TEST(TransferHandshake, WhoeverPassesTheWordsOnFromAnotherAddressProvesNothing) {
  Handshake a = Handshake::connecting(WorkerId{1}, WorkerId{2}, with("s", "in between")),
            b = Handshake::listening(WorkerId{2}, with("s", "here"));
  const auto challenge = b.handle(*a.first());
  EXPECT_THROW(a.handle(*challenge), Error);
}

TEST(Slabs, CoverAllPagesOnceInSlabsOfAtLeastTheTokensAskedFor) {
  EXPECT_TRUE(rc::check([] {
    SlabShape shape{.page_tokens = *rc::gen::element(8, 16, 32, 64, 128),
                    .page_bytes = *rc::gen::inRange(1, 5000)};
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
