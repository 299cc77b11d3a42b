// SPDX-License-Identifier: MIT
#include "cluster/transfer/page_slab.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstring>

#include "base/error.h"
#include "cluster/transfer/kv_page_layout.h"
#include "cluster/transfer/transfer_fixture.h"

namespace cheetah::cluster {
namespace {

using transfer::KvPageLayout;

KvDescriptor pages_of(const char* dtype, int32_t page_tokens, const char* order = "keys_by_dimension") {
  KvDescriptor kv{.model = "model",
      .dtype = dtype,
      .order = order,
      .page_tokens = page_tokens,
      .num_layers = 2,
      .num_kv_heads = 4,
      .key_dim = 6,
      .value_dim = 5,
      .windows = {0}};
  kv.page_bytes = KvPageLayout(kv).place_bytes();
  return kv;
}

using Bytes = std::vector<std::byte>;

Bytes pages_for(const KvDescriptor& kv, int64_t tokens, uint32_t seed = 1) {
  return pattern_bytes(static_cast<size_t>(tokens / kv.page_tokens * kv.page_bytes), seed);
}

// What a prefill worker does: `source` are its pages from token 0 on.
Bytes slab_of(const KvDescriptor& mine, const KvDescriptor& wanted, std::span<const std::byte> source,
    const SlabWriter::Label& label) {
  const SlabWriter writer(mine, wanted);
  Bytes slab(static_cast<size_t>(writer.slab_bytes(label.num_tokens)));
  const SlabWriter::Source from = writer.source_of(label);
  const auto pages =
      source.subspan(static_cast<size_t>(from.first_token / mine.page_tokens * mine.page_bytes),
          static_cast<size_t>(from.bytes));
  if (writer.as_they_are()) {
    writer.write_header(label, slab);
    std::memcpy(SlabWriter::body(slab).data(), pages.data(), pages.size());
  } else {
    writer.write(label, pages, slab);
  }
  return slab;
}

// What a decode worker does.
void read_into(const KvDescriptor& mine, std::span<const std::byte> slab, std::span<std::byte> pages) {
  const SlabView view = parse_slab(slab);
  const SlabReader reader(mine);
  ASSERT_EQ(reader.page_bytes(view), std::ssize(pages));
  if (reader.as_they_are(view.header))
    std::memcpy(pages.data(), view.pages.data(), pages.size());
  else
    reader.read(view, pages);
}

Bytes moved(const KvDescriptor& from, const KvDescriptor& to, std::span<const std::byte> source,
    int64_t first, int64_t tokens) {
  const Bytes slab = slab_of(from, to, source, {.key = {}, .first_token = first, .num_tokens = tokens});
  Bytes pages(static_cast<size_t>(tokens / to.page_tokens * to.page_bytes), std::byte{0xEE});
  read_into(to, slab, pages);
  return pages;
}

TEST(PageSlab, EqualPagesTravelAsTheyAre) {
  const KvDescriptor kv = pages_of("F16", 16);
  EXPECT_TRUE(SlabWriter(kv, kv).as_they_are());
  const Bytes source = pages_for(kv, 64);
  EXPECT_EQ(moved(kv, kv, source, 0, 64), source);
}

TEST(PageSlab, PagesOfAnotherSizeAndOrderComeBackUnchanged) {
  const KvDescriptor host = pages_of("BF16", 16), device = pages_of("BF16", 64, "keys_by_token");
  const Bytes source = pages_for(host, 256);
  EXPECT_EQ(moved(device, host, moved(host, device, source, 0, 256), 0, 256), source);
}

TEST(PageSlab, ASlabMayBeginAndEndInTheMiddleOfTheSendersPages) {
  const KvDescriptor large = pages_of("F16", 64), small = pages_of("F16", 16);
  const Bytes source = pages_for(large, 256), all = moved(large, small, source, 0, 256);
  for (const int64_t first : {16, 48, 64, 112}) {
    const Bytes part = moved(large, small, source, first, 96);
    const auto expected =
        std::span(all).subspan(static_cast<size_t>(first / 16 * small.page_bytes), part.size());
    EXPECT_TRUE(std::ranges::equal(part, expected)) << first;
  }
}

TEST(PageSlab, NumbersTravelInTheNarrowerType) {
  EXPECT_EQ(travelling(pages_of("F32", 16), pages_of("F16", 16)).dtype, "F16");
  EXPECT_EQ(travelling(pages_of("BF16", 16), pages_of("F32", 16)).dtype, "BF16");
  EXPECT_EQ(travelling(pages_of("F16", 16), pages_of("I8", 16)).dtype, "I8");
  EXPECT_EQ(travelling(pages_of("F8_E4M3", 8), pages_of("F16", 16)).dtype, "F8_E4M3");
  EXPECT_EQ(travelling(pages_of("F8_E4M3", 8), pages_of("F16", 16)).page_tokens, 16);
}

TEST(PageSlab, WiderNumbersAreTheSameNumbers) {
  const KvDescriptor narrow = pages_of("BF16", 16), wide = pages_of("F32", 32);
  Bytes source = pages_for(narrow, 64);
  for (size_t i = 1; i < source.size(); i += 2) source[i] &= std::byte{0xBF};  // no NaN: they lose bits
  EXPECT_EQ(moved(wide, narrow, moved(narrow, wide, source, 0, 64), 0, 64), source);
}

// The ranks of one engine send to the ranks of another, as workers with one shard each would.
TEST(PageSlab, ShardsOfAnyNumberGatherWhatTheyNeedFromAnyOther) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<int32_t> sizes{1, 2, 3, 4, 8};
    KvDescriptor from = pages_of(*rc::gen::element("F32", "F16", "I8"), *rc::gen::element(8, 16));
    if (*rc::gen::arbitrary<bool>()) {  // MLA: one latent for all heads
      from.value_dim = 0;
      from.num_kv_heads = 1;
    }
    from = shard(from, 0, 1);
    KvDescriptor to = from;
    to.page_tokens = *rc::gen::element(8, 16, 32);
    to.order = *rc::gen::element("keys_by_dimension", "keys_by_token");
    to = shard(to, 0, 1);
    const int32_t tp_src = *rc::gen::elementOf(sizes), tp_dst = *rc::gen::elementOf(sizes);
    const Bytes model = pages_for(from, 64, *rc::gen::arbitrary<uint32_t>());
    const Bytes expected = moved(from, to, model, 0, 64);
    for (int32_t d = 0; d < tp_dst; ++d) {
      const KvDescriptor mine = shard(to, d, tp_dst);
      Bytes gathered(static_cast<size_t>(64 / mine.page_tokens * mine.page_bytes), std::byte{0xEE});
      for (int32_t s = 0; s < tp_src; ++s) {
        const KvDescriptor theirs = shard(from, s, tp_src);
        const Bytes pages = moved(from, theirs, model, 0, 64);
        read_into(mine, slab_of(theirs, mine, pages, {.key = {}, .num_tokens = 64}), gathered);
      }
      RC_ASSERT(gathered == moved(to, mine, expected, 0, 64));
    }
  }));
}

TEST(PageSlab, AShardThatLacksHeadsIsNoSenderByItself) {
  const KvDescriptor kv = pages_of("F16", 16);
  EXPECT_EQ(match_sender(shard(kv, 1, 2), kv).verdict, KvCompatibility::kRefuse);
  EXPECT_EQ(match_sender(kv, shard(kv, 1, 2)).verdict, KvCompatibility::kTransform);
  EXPECT_EQ(match_sender(shard(kv, 1, 2), shard(kv, 2, 4)).verdict, KvCompatibility::kTransform);
}

TEST(PageSlab, WhatIsNoSlabOfThesePagesIsRefused) {
  const KvDescriptor kv = pages_of("F16", 16);
  const Bytes slab = slab_of(kv, kv, pages_for(kv, 32), {.key = {}, .num_tokens = 32});
  const auto changed = [&](auto change) {
    Bytes bytes = slab;
    SlabHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    change(header);
    std::memcpy(bytes.data(), &header, sizeof header);
    return bytes;
  };
  const auto refused = [&](const Bytes& bytes) {
    EXPECT_THROW(SlabReader(kv).as_they_are(parse_slab(bytes).header), Error);
  };
  refused(changed([](SlabHeader& header) { std::memcpy(header.dtype, "Q4_0", 5); }));
  refused(changed([](SlabHeader& header) { std::memset(header.dtype, 'x', 8); }));
  refused(changed([](SlabHeader& header) { std::memcpy(header.dtype, "I8", 3); }));
  refused(changed([](SlabHeader& header) { header.tp_size = 0; }));
  refused(changed([](SlabHeader& header) { header.tp_rank = 5; }));
  refused(changed([](SlabHeader& header) { header.page_tokens = 8; }));
  KvDescriptor other = kv;
  other.model = "another";
  EXPECT_THROW(SlabWriter(kv, other), Error);
}

}  // namespace
}  // namespace cheetah::cluster
