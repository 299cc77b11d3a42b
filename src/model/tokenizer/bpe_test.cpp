// SPDX-License-Identifier: MIT
#include "model/tokenizer/bpe.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/error.h"
#include "model/tokenizer/tokenizer_test_files.h"

namespace cheetah {
namespace {

using test::byte_level_json;
using test::Ids;
using test::load;
using test::metaspace_json;

TEST(Merging, ShortAndLongWaysAgree) {
  EXPECT_TRUE(rc::check("merge", [] {
    MergeTable merges;
    const int rules = *rc::gen::inRange(0, 60);
    for (int i = 0; i < rules; ++i)
      merges.insert(*rc::gen::inRange(0, 8), *rc::gen::inRange(0, 8),
          {static_cast<uint32_t>(*rc::gen::inRange(0, 30)), *rc::gen::inRange(8, 40)});
    Ids symbols = *rc::gen::container<Ids>(rc::gen::inRange(0, 8));
    Ids longer = symbols;
    merge_short(merges, symbols, 0);
    merge_long(merges, longer, 0);
    RC_ASSERT(symbols == longer);
  }));
}

TEST(ByteLevelBpe, JoinsTheEarliestMergeFirst) {
  const auto tokenizer = load(byte_level_json({{"b", "c"}, {"a", "b"}, {"a", "bc"}}));
  EXPECT_EQ(tokenizer->encode("abc", {}), (Ids{258}));
  EXPECT_EQ(tokenizer->encode("ab abc", {}), (Ids{257, ' ', 258}));
  EXPECT_EQ(tokenizer->decode(Ids{257, ' ', 258}, false), "ab abc");
}

TEST(ByteLevelBpe, BytesOfEveryKindSurviveTheRoundTrip) {
  const auto tokenizer = load(byte_level_json({}));
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(bytes, {}), false), repair_utf8(bytes));
}

TEST(ByteLevelBpe, IgnoringMergesTakesAWholeWordFromTheVocabulary) {
  Json json = byte_level_json({{"a", "b"}});
  json["model"]["vocab"]["xyz"] = 300;
  EXPECT_EQ(load(json)->encode("xyz", {}), (Ids{'x', 'y', 'z'}));
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(load(json)->encode("xyz", {}), (Ids{300}));
}

TEST(ByteLevelBpe, MegabytesOfOneLetterTakeNoLongerThanTheyShould) {
  const auto tokenizer = load(byte_level_json({{"a", "a"}, {"aa", "aa"}, {"aaaa", "aaaa"}}));
  const Ids ids = tokenizer->encode(std::string((1 << 20) + 3, 'a'), {});
  EXPECT_EQ(std::ssize(ids), (1 << 17) + 2);
  EXPECT_EQ(ids.front(), 258);
  EXPECT_EQ(ids.back(), 'a');
}

TEST(MetaspaceBpe, CutsALongTextBetweenWordsWithoutChangingIt) {
  const Json vocab = {
      {"<unk>", 0}, {"\u2581", 1}, {"a", 2}, {"b", 3}, {"\u2581a", 4}, {"\u2581ab", 5}, {"b\u2581", 6}};
  const Json split = Json::array({"\u2581 a", "\u2581a b"});
  EXPECT_EQ(load(metaspace_json(vocab, split, false))->encode("ab ab a", {}), (Ids{5, 5, 4}));
  // With a merge that reaches over the space, the cut must not happen.
  const Json glued = Json::array({"b \u2581", "\u2581 a", "\u2581a b"});
  EXPECT_EQ(load(metaspace_json(vocab, glued, false))->encode("ab ab", {}), (Ids{4, 6, 2, 3}));
}

TEST(MetaspaceBpe, UnknownCharactersBecomeBytesOrOneUnknownToken) {
  const Json vocab = {{"<unk>", 0}, {"\u2581", 1}, {"a", 2}};
  EXPECT_EQ(load(metaspace_json(vocab, Json::array(), true))->encode("aé", {}),
      (Ids{1, 2, 1000 + 0xC3, 1000 + 0xA9}));
  EXPECT_EQ(load(metaspace_json(vocab, Json::array(), false))->encode("aéüa", {}), (Ids{1, 2, 0, 2}));
  Json separate = metaspace_json(vocab, Json::array(), false);
  separate["model"]["fuse_unk"] = false;
  EXPECT_EQ(load(separate)->encode("aéüa", {}), (Ids{1, 2, 0, 0, 2}));
}

TEST(Bpe, PrefixesAndSuffixesMarkPlacesInTheWord) {
  Json json = {{"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
      {"decoder", {{"type", "BPEDecoder"}, {"suffix", "</w>"}}},
      {"model",
          {{"type", "BPE"}, {"end_of_word_suffix", "</w>"},
              {"vocab", {{"a", 0}, {"b</w>", 1}, {"ab</w>", 2}, {"a</w>", 3}}}, {"merges", {"a b</w>"}}}}};
  EXPECT_EQ(load(json)->encode("ab a aab", {}), (Ids{2, 3, 0, 2}));
  EXPECT_EQ(load(json)->decode(Ids{2, 3, 0, 2}, false), "ab a aab");
  json["model"] = {{"type", "BPE"}, {"continuing_subword_prefix", "##"},
      {"vocab", {{"a", 0}, {"##b", 1}, {"ab", 2}, {"##c", 3}}}, {"merges", {"a ##b"}}};
  EXPECT_EQ(load(json)->encode("abc", {}), (Ids{2, 3}));
}

TEST(Bpe, AnUnknownTokenOutsideTheVocabularyIsAnErrorOnlyWhereItIsNeeded) {
  const Json json = {
      {"model", {{"type", "BPE"}, {"unk_token", "?"}, {"vocab", {{"a", 0}}}, {"merges", Json::array()}}}};
  EXPECT_EQ(load(json)->encode("aa", {}), (Ids{0, 0}));
  EXPECT_THROW(load(json)->encode("b", {}), Error);
}

}  // namespace
}  // namespace cheetah
