// SPDX-License-Identifier: MIT
#include "model/tokenizer/normalizer.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {
namespace {

std::string normal(const Json& description, std::string_view text) {
  NormalText result{std::string(text)};
  make_normalizer(description, "test.json")->apply(result);
  return result.text;
}

TEST(UnicodeForms, ComposeAndDecompose) {
  EXPECT_EQ(normal({{"type", "NFC"}}, "xe\u0301y\u00A0z"), "x\u00E9y\u00A0z");
  EXPECT_EQ(normal({{"type", "NFD"}}, "x\u00E9y"), "xe\u0301y");
  EXPECT_EQ(normal({{"type", "NFKC"}}, "\uFB01\u00A0\u2460 a"), "fi 1 a");
  EXPECT_EQ(normal({{"type", "NFKD"}}, "\uFB01\u00E9"), "fie\u0301");
}

TEST(UnicodeForms, NormalizingInPartsEqualsNormalizingTheWhole) {
  const std::string text =
      "abc\u0301 \u1100\u1161\u11A8 x\u0323\u0307\u0301 \u212B K\u030A \u0344 end \u00C5\u0301z\u0308";
  for (const UnicodeForm form :
      {UnicodeForm::kNfc, UnicodeForm::kNfd, UnicodeForm::kNfkc, UnicodeForm::kNfkd}) {
    const Json type = {{"type", form == UnicodeForm::kNfc    ? "NFC"
                                : form == UnicodeForm::kNfd  ? "NFD"
                                : form == UnicodeForm::kNfkc ? "NFKC"
                                                             : "NFKD"}};
    EXPECT_EQ(normal(type, text), to_form(text, form));
  }
}

TEST(SimpleNormalizers, DoWhatTheirNamesSay) {
  EXPECT_EQ(normal({{"type", "Lowercase"}}, "ÀBC İ"), "àbc i\u0307");
  EXPECT_EQ(normal({{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}}, "  a "), "a ");
  EXPECT_EQ(normal({{"type", "StripAccents"}}, "e\u0301\u0903"), "e");
  EXPECT_EQ(normal({{"type", "Prepend"}, {"prepend", "_"}}, "a"), "_a");
  EXPECT_EQ(normal({{"type", "Prepend"}, {"prepend", "_"}}, ""), "");
  EXPECT_EQ(normal({{"type", "Nmt"}}, "a\u0001b\u200Bc\td"), "ab c d");
  EXPECT_EQ(normal({{"type", "ByteLevel"}}, "a é"), "aĠÃ©");
}

TEST(Replace, TakesStringsAndPatterns) {
  EXPECT_EQ(normal({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "bb"}}, "aXa"), "bbXbb");
  EXPECT_EQ(
      normal({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}, "a   b c"), "a b c");
  EXPECT_EQ(normal({{"type", "Replace"}, {"pattern", {{"Regex", "[0-9]"}}}, {"content", ""}}, "1a2"), "a");
}

TEST(BertNormalizer, CleansSpacesChineseStripsAccentsAndLowers) {
  const Json full = {{"type", "BertNormalizer"}, {"clean_text", true}, {"handle_chinese_chars", true},
      {"strip_accents", nullptr}, {"lowercase", true}};
  EXPECT_EQ(normal(full, "Àb\tc\u0001漢D"), "ab c 漢 d");
  const Json cased = {{"type", "BertNormalizer"}, {"lowercase", false}};
  EXPECT_EQ(normal(cased, "Àb"), "Àb");
}

TEST(Normalizer, KnowsWhetherTheBeginningIsStillTheBeginning) {
  const auto strip = make_normalizer({{"type", "Strip"}}, "x");
  NormalText moved{" a"}, kept{"a "};
  strip->apply(moved);
  strip->apply(kept);
  EXPECT_FALSE(moved.at_start);
  EXPECT_TRUE(kept.at_start);
}

// A table with one rule: "A" becomes "bc". Unit 0 is the root, its child for 'A' stands at 0x41 (leaf at
// 0x40).
std::string one_rule_table(uint32_t value) {
  std::vector<uint32_t> units(256, 0);
  units[0] = 0;
  units['A'] = 'A' | 1U << 8 | 1U << 10;
  units['A' ^ 1] = value | 1U << 31;
  const auto trie_bytes = static_cast<uint32_t>(units.size() * 4);
  std::string table(reinterpret_cast<const char*>(&trie_bytes), 4);
  table.append(reinterpret_cast<const char*>(units.data()), trie_bytes);
  return table + std::string("bc\0", 3);
}

TEST(Precompiled, ReplacesByTheTableAndSurvivesBadOffsets) {
  NormalText good{"xAy"};
  make_precompiled_table(one_rule_table(0), "t")->apply(good);
  EXPECT_EQ(good.text, "xbcy");
  NormalText bad{"xAy"};
  make_precompiled_table(one_rule_table(0x7FFFFFF), "t")->apply(bad);
  EXPECT_EQ(bad.text, "xAy");
}

TEST(Precompiled, RefusesTablesThatLieAboutTheirSize) {
  EXPECT_THROW(make_precompiled_table("abc", "t"), Error);
  EXPECT_THROW(make_precompiled_table(std::string("\xFF\xFF\xFF\x7F", 4), "t"), Error);
  EXPECT_THROW(make_precompiled("!!!", "t"), Error);
}

TEST(Normalizer, UnknownTypesAndTooManyStepsAreRefused) {
  EXPECT_THROW(make_normalizer({{"type", "Magic"}}, "x"), Error);
  const Json wide = {{"type", "Sequence"}, {"normalizers", Json(1000, {{"type", "NFC"}})}};
  EXPECT_THROW(make_normalizer(wide, "x"), Error);
}

}  // namespace
}  // namespace cheetah
