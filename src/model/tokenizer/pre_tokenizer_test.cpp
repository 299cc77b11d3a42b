// SPDX-License-Identifier: MIT
#include "model/tokenizer/pre_tokenizer.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace cheetah {
namespace {

using Strings = std::vector<std::string>;

Strings cut(const Json& description, const std::string& text, bool at_start = true) {
  PieceList list{text, {{0, std::ssize(text), at_start}}};
  make_pre_tokenizer(description, false, "test.json")->apply(list);
  Strings pieces;
  for (const PieceList::Piece& piece : list.pieces) pieces.emplace_back(list.view(piece));
  return pieces;
}

Json split(const char* behavior, bool invert = false) {
  return {{"type", "Split"}, {"pattern", {{"String", "-"}}}, {"behavior", behavior}, {"invert", invert}};
}

TEST(Split, HasFiveBehaviours) {
  const std::string text = "the-final--countdown";
  EXPECT_EQ(cut(split("Removed"), text), (Strings{"the", "final", "countdown"}));
  EXPECT_EQ(cut(split("Isolated"), text), (Strings{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(cut(split("MergedWithPrevious"), text), (Strings{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(cut(split("MergedWithNext"), text), (Strings{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(cut(split("Contiguous"), text), (Strings{"the", "-", "final", "--", "countdown"}));
}

TEST(Split, InvertedKeepsTheMatches) {
  EXPECT_EQ(cut(split("Removed", true), "a-b--"), (Strings{"-", "-", "-"}));
}

TEST(ByteLevel, CutsLikeGpt2AndWritesBytesAsCharacters) {
  const Json plain = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  EXPECT_EQ(cut(plain, "Hi  there's\n"), (Strings{"Hi", "Ġ", "Ġthere", "'s", "Ċ"}));
  const Json prefixed = {{"type", "ByteLevel"}, {"add_prefix_space", true}};
  EXPECT_EQ(cut(prefixed, "é"), (Strings{"ĠÃ©"}));
  const Json whole = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  EXPECT_EQ(cut(whole, "a b"), (Strings{"aĠb"}));
}

TEST(Metaspace, PrependsAlwaysFirstOrNever) {
  const auto metaspace = [](const char* scheme, bool splits) {
    return Json{
        {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", scheme}, {"split", splits}};
  };
  EXPECT_EQ(cut(metaspace("always", true), "a b", false), (Strings{"\u2581a", "\u2581b"}));
  EXPECT_EQ(cut(metaspace("first", true), "a b", true), (Strings{"\u2581a", "\u2581b"}));
  EXPECT_EQ(cut(metaspace("first", true), "a b", false), (Strings{"a", "\u2581b"}));
  EXPECT_EQ(cut(metaspace("never", false), "a b", true), (Strings{"a\u2581b"}));
  EXPECT_EQ(cut(metaspace("always", true), " a", true), (Strings{"\u2581a"}));
}

TEST(SimplePreTokenizers, CutAtWhatTheirNamesSay) {
  EXPECT_EQ(cut({{"type", "Whitespace"}}, "Hey, a_b!? 1"), (Strings{"Hey", ",", "a_b", "!?", "1"}));
  EXPECT_EQ(cut({{"type", "WhitespaceSplit"}}, " Hey,\u00A0you "), (Strings{"Hey,", "you"}));
  EXPECT_EQ(cut({{"type", "Punctuation"}}, "a.b$"), (Strings{"a", ".", "b", "$"}));
  EXPECT_EQ(cut({{"type", "Punctuation"}, {"behavior", "Contiguous"}}, "a..b"), (Strings{"a", "..", "b"}));
  EXPECT_EQ(cut({{"type", "Digits"}}, "a12b"), (Strings{"a", "12", "b"}));
  EXPECT_EQ(cut({{"type", "Digits"}, {"individual_digits", true}}, "a12b"), (Strings{"a", "1", "2", "b"}));
  EXPECT_EQ(cut({{"type", "BertPreTokenizer"}}, "Hey you!"), (Strings{"Hey", "you", "!"}));
  EXPECT_EQ(cut({{"type", "CharDelimiterSplit"}, {"delimiter", "|"}}, "a|b||c"), (Strings{"a", "b", "c"}));
}

TEST(Sequence, CutsThePiecesOfTheStepBefore) {
  const Json steps = {{"type", "Sequence"},
      {"pretokenizers", {{{"type", "WhitespaceSplit"}}, {{"type", "Digits"}, {"individual_digits", true}}}}};
  EXPECT_EQ(cut(steps, "a1 22"), (Strings{"a", "1", "2", "2"}));
}

TEST(PreTokenizer, TooManyStepsOrLevelsAreRefused) {
  Json nested = {{"type", "WhitespaceSplit"}};
  for (int i = 0; i < 40; ++i) nested = {{"type", "Sequence"}, {"pretokenizers", Json::array({nested})}};
  EXPECT_THROW(make_pre_tokenizer(nested, false, "x"), Error);
  const Json wide = {{"type", "Sequence"}, {"pretokenizers", Json(1000, {{"type", "WhitespaceSplit"}})}};
  EXPECT_THROW(make_pre_tokenizer(wide, false, "x"), Error);
}

}  // namespace
}  // namespace cheetah
