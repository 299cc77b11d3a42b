// SPDX-License-Identifier: MIT
#include "cluster/transfer/kv_compat.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstring>
#include <map>

#include "base/error.h"
#include "cluster/transfer/kv_page_layout.h"
#include "cluster/transfer/transfer_fixture.h"

namespace cheetah::cluster {
namespace {

using transfer::KvPageLayout;

KvDescriptor small(const char* dtype = "F16") {
  KvDescriptor kv{.model = "model",
      .dtype = dtype,
      .order = "keys_by_dimension",
      .page_tokens = 8,
      .num_layers = 3,
      .num_kv_heads = 4,
      .key_dim = 6,
      .value_dim = 5,
      .windows = {0}};
  kv.page_bytes = KvPageLayout(kv).place_bytes();
  return kv;
}

using Pages = std::vector<std::vector<std::byte>>;  // of each rank

// All ranks of `from` into all ranks of `to`; the target starts as 0xEE.
Pages reshard(const KvDescriptor& from, int32_t tp_src, const Pages& pages, const KvDescriptor& to,
    int32_t tp_dst, int64_t tokens) {
  Pages out;
  for (int32_t d = 0; d < tp_dst; ++d) {
    const KvDescriptor target = shard(to, d, tp_dst);
    out.emplace_back(static_cast<size_t>(KvTransform(target, target).to_bytes(tokens)), std::byte{0xEE});
    for (int32_t s = 0; s < tp_src; ++s)
      KvTransform(shard(from, s, tp_src), target).apply(pages[static_cast<size_t>(s)], out.back(), tokens);
  }
  return out;
}

// Ranks that share a head must hold the same numbers of it, as tensor-parallel engines do.
Pages whole_model(const KvDescriptor& kv, int64_t tokens, uint32_t seed) {
  const KvDescriptor one = shard(kv, 0, 1);
  return {pattern_bytes(static_cast<size_t>(KvTransform(one, one).from_bytes(tokens)), seed)};
}

TEST(KvCompatibility, EqualPagesMoveAsTheyAre) {
  EXPECT_EQ(match_kv(small(), small()).verdict, KvCompatibility::kEqual);
}

TEST(KvCompatibility, OtherShardsDtypesOrdersAndPageSizesAreTransformed) {
  KvDescriptor order = small(), tokens = small();
  order.order = "keys_by_token";
  tokens.page_tokens = 16;
  tokens.page_bytes = 0;
  for (const KvDescriptor& other :
      {shard(small(), 1, 2), with_dtype(small(), DType::kF8E4M3), order, tokens}) {
    const KvComparison match = match_kv(small(), other);
    EXPECT_EQ(match.verdict, KvCompatibility::kTransform) << match.why;
    EXPECT_FALSE(match.why.empty());
  }
}

TEST(KvCompatibility, OtherModelsAndShapesAreRefusedWithAReason) {
  std::map<std::string, KvDescriptor> cases;
  for (const char* word :
      {"model", "layers", "heads", "key", "value", "windows", "dtype", "order", "multiple", "shard", "bytes"})
    cases[word] = small();
  cases["model"].model = "another";
  cases["layers"].num_layers = 4;
  cases["heads"].num_kv_heads = 2;
  cases["key"].key_dim = 7;
  cases["value"].value_dim = 4;
  cases["windows"].windows = {0, 128};
  cases["dtype"].dtype = "Q4_0";
  cases["order"].order = "sideways";
  cases["multiple"].page_tokens = 12;
  cases["multiple"].page_bytes = 0;
  cases["shard"].tp_rank = 2;
  cases["shard"].tp_size = 2;
  cases["bytes"].page_bytes += 1;
  for (const auto& [word, other] : cases) {
    const KvComparison match = match_kv(small(), other);
    EXPECT_EQ(match.verdict, KvCompatibility::kRefuse) << word;
    EXPECT_NE(match.why.find(word), std::string::npos) << match.why;
    EXPECT_THROW(KvTransform(small(), other), Error);
  }
}

TEST(KvReshard, EveryHeadOfEveryRankComesFromExactlyOneRankThatKeepsIt) {
  for (const int32_t heads : {1, 2, 3, 4, 8, 12})
    for (const int32_t tp_src : {1, 2, 3, 4, 8, 16})
      for (const int32_t tp_dst : {1, 2, 3, 4, 8, 16}) {
        std::map<std::pair<int32_t, int32_t>, int> landed;
        for (const ReshardPiece& piece : plan_reshard(heads, tp_src, tp_dst)) {
          const HeadRange kept = heads_of_rank(heads, piece.from_rank, tp_src);
          EXPECT_GE(piece.heads.first, kept.first);
          EXPECT_LE(piece.heads.first + piece.heads.count, kept.first + kept.count);
          for (int32_t i = 0; i < piece.heads.count; ++i) ++landed[{piece.to_rank, piece.heads.first + i}];
        }
        size_t expected = 0;
        for (int32_t rank = 0; rank < tp_dst; ++rank)
          expected += static_cast<size_t>(heads_of_rank(heads, rank, tp_dst).count);
        EXPECT_EQ(landed.size(), expected);
        for (const auto& [where, times] : landed) EXPECT_EQ(times, 1);
      }
}

TEST(KvReshard, RanksThatShareAHeadTakeTurnsAsItsSource) {
  std::map<int32_t, int> uses;
  for (const ReshardPiece& piece : plan_reshard(1, 4, 4)) ++uses[piece.from_rank];
  EXPECT_EQ(uses.size(), 4u);
}

TEST(KvReshard, ThereAndBackIsTheSameForAnyShardsOrdersAndPageSizes) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<int32_t> sizes{1, 2, 3, 4, 8};
    KvDescriptor kv = small(*rc::gen::element("F32", "F16", "BF16", "F8_E4M3", "I8"));
    kv.num_kv_heads = *rc::gen::element(1, 2, 4, 6);
    kv.value_dim = *rc::gen::element(0, 5);
    if (kv.value_dim == 0) kv.num_kv_heads = 1;  // MLA
    kv.page_bytes = 0;
    KvDescriptor other = kv;
    other.order = *rc::gen::element("keys_by_dimension", "keys_by_token");
    other.page_tokens = *rc::gen::element(4, 8, 16);
    const int32_t tp_a = *rc::gen::elementOf(sizes), tp_b = *rc::gen::elementOf(sizes);
    const int64_t tokens = 32;
    const Pages model = whole_model(kv, tokens, *rc::gen::arbitrary<uint32_t>());
    const Pages a = reshard(kv, 1, model, kv, tp_a, tokens);
    const Pages b = reshard(kv, tp_a, a, other, tp_b, tokens);
    RC_ASSERT(reshard(other, tp_b, b, kv, tp_a, tokens) == a);
    RC_ASSERT(reshard(other, tp_b, b, kv, 1, tokens) == model);
  }));
}

TEST(KvTransform, ChangesEachNumberByNoMoreThanItsNewPrecision) {
  KvDescriptor from = small("F32");
  const int64_t tokens = 16;
  std::vector<std::byte> pages(static_cast<size_t>(KvTransform(from, from).from_bytes(tokens)));
  std::vector<float> numbers(pages.size() / sizeof(float));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i) * 0.37f) * 3.f;
  std::memcpy(pages.data(), numbers.data(), pages.size());
  // Half a step of the mantissa, relative to the number; e4m3 is relative to the row's largest where numbers
  // are small.
  const std::map<DType, double> relative{
      {DType::kF16, 0x1p-11}, {DType::kBF16, 0x1p-8}, {DType::kF8E4M3, 0x1p-4}};
  for (const auto& [dtype, tolerance] : relative) {
    const KvDescriptor wire = with_dtype(from, dtype);
    EXPECT_LT(wire.page_bytes, from.page_bytes);
    std::vector<std::byte> small_pages(static_cast<size_t>(KvTransform(from, wire).to_bytes(tokens)));
    std::vector<std::byte> back(pages.size());
    KvTransform(from, wire).apply(pages, small_pages, tokens);
    KvTransform(wire, from).apply(small_pages, back, tokens);
    for (size_t i = 0; i < numbers.size(); ++i) {
      float value;
      std::memcpy(&value, back.data() + i * sizeof value, sizeof value);
      EXPECT_NEAR(
          value, numbers[i], tolerance * std::fabs(numbers[i]) + (dtype == DType::kF8E4M3 ? 0.01 : 1e-6));
    }
  }
  EXPECT_THROW(with_dtype(from, DType::kQ4_0), Error);
}

TEST(KvTransform, RefusesBytesThatAreNotWholePages) {
  const KvTransform same(small(), small());
  std::vector<std::byte> pages(static_cast<size_t>(same.from_bytes(8)));
  EXPECT_THROW(same.apply(pages, pages, 7), Error);
  EXPECT_THROW(same.apply(pages, std::span(pages).first(10), 8), Error);
}

}  // namespace
}  // namespace cheetah::cluster
