// SPDX-License-Identifier: MIT
#include "model/tokenizer/added_tokens.h"

#include <gtest/gtest.h>

#include "model/tokenizer/tokenizer_test_files.h"

namespace cheetah {
namespace {

using test::byte_level_json;
using test::Ids;
using test::load;

Json added(const std::string& content, int id, const Json& flags = Json::object()) {
  Json token = {{"content", content}, {"id", id}, {"special", true}, {"normalized", false}};
  token.update(flags);
  return token;
}

Json with_tokens(const Json& tokens) {
  Json json = byte_level_json({});
  json["added_tokens"] = tokens;
  return json;
}

TEST(AddedTokens, TheLeftmostAndOfThoseTheLongestWins) {
  const auto tokenizer = load(with_tokens({added("<a>", 300), added("<a><b>", 301), added("<b>", 302)}));
  EXPECT_EQ(tokenizer->encode("<a><b><b>x<a>", {}), (Ids{301, 302, 'x', 300}));
  EXPECT_EQ(tokenizer->decode(Ids{301, 'x', 300}, false), "<a><b>x<a>");
  EXPECT_EQ(tokenizer->decode(Ids{301, 'x', 300}, true), "x");
}

TEST(AddedTokens, SpecialOnesInUntrustedTextAreText) {
  const Json user = {{"special", false}};
  const auto tokenizer = load(with_tokens({added("<s>", 300), added("<u>", 301, user)}));
  EXPECT_EQ(tokenizer->encode("<s><u>", {.parse_special = false}), (Ids{'<', 's', '>', 301}));
  EXPECT_EQ(tokenizer->encode("<s><u>", {}), (Ids{300, 301}));
  EXPECT_TRUE(tokenizer->is_special(300));
  EXPECT_FALSE(tokenizer->is_special(301));
}

TEST(AddedTokens, StripTheWhiteSpaceBesideThem) {
  const auto tokenizer =
      load(with_tokens({added("<m>", 300, {{"lstrip", true}, {"rstrip", true}}), added("<n>", 301)}));
  EXPECT_EQ(tokenizer->encode("a  <m> \n b", {}), (Ids{'a', 300, 'b'}));
  EXPECT_EQ(tokenizer->encode("a <n> b", {}), (Ids{'a', ' ', 301, ' ', 'b'}));
  EXPECT_EQ(tokenizer->encode("<m> <m>", {}), (Ids{300, 300}));
}

TEST(AddedTokens, SingleWordsMustStandAlone) {
  const auto tokenizer = load(with_tokens(Json::array({added("ab", 300, {{"single_word", true}})})));
  EXPECT_EQ(tokenizer->encode("ab,ab", {}), (Ids{300, ',', 300}));
  EXPECT_EQ(tokenizer->encode("abc", {}), (Ids{'a', 'b', 'c'}));
  EXPECT_EQ(tokenizer->encode("éab", {}), (Ids{0xC3, 0xA9, 'a', 'b'}));
}

TEST(AddedTokens, NormalizedOnesAreFoundInTheNormalizedText) {
  Json json = with_tokens({added("Yes", 300, {{"special", false}, {"normalized", true}}), added("No", 301)});
  json["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_EQ(load(json)->encode("YES", {}), (Ids{300}));
  EXPECT_EQ(load(json)->encode("NO", {}), (Ids{'n', 'o'}));
}

TEST(AddedTokens, MetaspaceOnlyPrependsAtTheBeginningOfTheText) {
  Json json = test::word_level_json({"\u2581a", "a", "\u2581"});
  json["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}};
  json["added_tokens"] = Json::array({added("<s>", 9)});
  EXPECT_EQ(load(json)->encode("a<s>a", {}), (Ids{1, 9, 2}));
}

TEST(PostProcessors, PutSpecialTokensAroundTheText) {
  Json json = with_tokens({added("<s>", 300), added("</s>", 301)});
  json["post_processor"] = {{"type", "TemplateProcessing"},
      {"single", {{{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}},
                     {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", Json::array()},
      {"special_tokens", {{"<s>", {{"id", "<s>"}, {"ids", {300}}, {"tokens", {"<s>"}}}}}}};
  EXPECT_EQ(load(json)->encode("a", {.add_special = true}), (Ids{300, 'a'}));
  EXPECT_EQ(load(json)->encode("a", {}), (Ids{'a'}));
  for (const char* type : {"BertProcessing", "RobertaProcessing"}) {
    json["post_processor"] = {{"type", type}, {"cls", {"<s>", 300}}, {"sep", {"</s>", 301}}};
    EXPECT_EQ(load(json)->encode("", {.add_special = true}), (Ids{300, 301})) << type;
  }
  const Json roberta = json["post_processor"];
  json["post_processor"] = {{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, roberta}}};
  EXPECT_EQ(load(json)->encode("a", {.add_special = true}), (Ids{300, 'a', 301}));
}

}  // namespace
}  // namespace cheetah
