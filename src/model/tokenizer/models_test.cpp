// SPDX-License-Identifier: MIT
// Unigram, WordPiece and WordLevel.
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/tokenizer/tokenizer_test_files.h"

namespace cheetah {
namespace {

using test::Ids;
using test::load;

using Scored = std::vector<std::pair<std::string, double>>;

Json unigram(const Scored& vocab) {
  return {{"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}}}};
}

TEST(Unigram, TakesTheMostProbableCut) {
  const Scored vocab = {{"<unk>", 0.0}, {"a", -1.0}, {"b", -1.0}, {"ab", -1.5}, {"abc", -9.0}, {"c", -1.0}};
  EXPECT_EQ(load(unigram(vocab))->encode("abc", {}), (Ids{3, 5}));
}

TEST(Unigram, NeighbouringUnknownCharactersAreOneToken) {
  const Scored vocab = {{"<unk>", 0.0}, {"a", -1.0}};
  EXPECT_EQ(load(unigram(vocab))->encode("aéüa", {}), (Ids{1, 0, 1}));
}

TEST(Unigram, FallsBackToBytesWhereItMay) {
  const Scored vocab = {{"<unk>", 0.0}, {"a", -1.0}, {"<0xC3>", -9.0}, {"<0xA9>", -9.0}};
  Json json = unigram(vocab);
  json["model"]["byte_fallback"] = true;
  EXPECT_EQ(load(json)->encode("aé", {}), (Ids{1, 2, 3}));
  EXPECT_EQ(load(json)->encode("ü", {}), (Ids{0}));  // one of its bytes has no token
}

TEST(Unigram, WithoutUnknownTokenAnUnknownCharacterIsAnError) {
  const Json json = {{"model", {{"type", "Unigram"}, {"vocab", Scored{{"a", -1.0}}}}}};
  EXPECT_EQ(load(json)->encode("aa", {}), (Ids{0, 0}));
  EXPECT_THROW(load(json)->encode("b", {}), Error);
}

TEST(WordPiece, TakesTheLongestPartsOrNothing) {
  const Json json = {{"pre_tokenizer", {{"type", "BertPreTokenizer"}}}, {"decoder", {{"type", "WordPiece"}}},
      {"model", {{"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"max_input_chars_per_word", 10},
                    {"vocab", {{"[UNK]", 0}, {"un", 1}, {"##aff", 2}, {"##able", 3}, {"a", 4}, {"!", 5}}}}}};
  const auto tokenizer = load(json);
  EXPECT_EQ(tokenizer->encode("unaffable a!", {}), (Ids{1, 2, 3, 4, 5}));
  EXPECT_EQ(tokenizer->encode("unknown", {}), (Ids{0}));
  EXPECT_EQ(tokenizer->encode("unaffaffaff", {}), (Ids{0}));  // too long
  EXPECT_EQ(tokenizer->decode(Ids{1, 2, 3, 4, 5}, false), "unaffable a!");
}

TEST(WordLevel, LooksPiecesUpWhole) {
  Json json = test::word_level_json({"ab", "c"});
  json["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  EXPECT_EQ(load(json)->encode("ab c abc", {}), (Ids{1, 2, 0}));
}

TEST(Models, WithoutATypeTheFieldsTellWhichItIs) {
  const Json wordpiece = {{"model", {{"continuing_subword_prefix", "##"}, {"unk_token", "?"},
                                        {"vocab", {{"a", 0}, {"##b", 1}, {"?", 2}}}}}};
  EXPECT_EQ(load(wordpiece)->encode("ab", {}), (Ids{0, 1}));
  const Json bpe = {{"model", {{"vocab", {{"a", 0}, {"b", 1}, {"ab", 2}}}, {"merges", {"a b"}}}}};
  EXPECT_EQ(load(bpe)->encode("ab", {}), (Ids{2}));
  const Json unigram_like = {{"model", {{"unk_id", 0}, {"vocab", Scored{{"<unk>", 0.0}, {"ab", -1.0}}}}}};
  EXPECT_EQ(load(unigram_like)->encode("ab", {}), (Ids{1}));
}

}  // namespace
}  // namespace cheetah
