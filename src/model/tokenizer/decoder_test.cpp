// SPDX-License-Identifier: MIT
#include "model/tokenizer/decoder.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/error.h"
#include "model/tokenizer/tokenizer_test_files.h"

namespace cheetah {
namespace {

using test::Ids;

std::string decoded(const Json* description, const std::vector<std::string>& tokens) {
  DecodeChain chain(make_decoder_plan(description, "test.json"));
  for (const std::string& token : tokens) chain.push(token);
  chain.finish();
  return chain.take();
}
std::string decoded(const Json& description, const std::vector<std::string>& tokens) {
  return decoded(&description, tokens);
}

const std::string kBad(kReplacementUtf8);

TEST(Decoder, WithoutOneTokensAreJoinedWithSpaces) { EXPECT_EQ(decoded(nullptr, {"a", "b"}), "a b"); }

TEST(ByteLevelDecoder, JoinsBytesAcrossTokensAndReplacesBrokenOnes) {
  const Json byte_level = {{"type", "ByteLevel"}};
  EXPECT_EQ(decoded(byte_level, {"Ã", "©Ġx"}), "é x");
  EXPECT_EQ(decoded(byte_level, {"Ã", "x"}), kBad + "x");
  EXPECT_EQ(decoded(byte_level, {"â", "Ĥ"}), kBad);  // the beginning of a euro sign
  EXPECT_EQ(decoded(byte_level, {"漢"}), "漢");      // stands for no byte: taken as it is
}

TEST(ByteFallbackDecoder, KeepsOrReplacesAWholeRunOfBytes) {
  const Json fallback = {{"type", "ByteFallback"}};
  EXPECT_EQ(decoded(fallback, {"a", "<0xC3>", "<0xA9>", "b"}), "aéb");
  EXPECT_EQ(decoded(fallback, {"<0xC3>", "<0xA9>", "<0xFF>"}), kBad + kBad + kBad);
  EXPECT_EQ(decoded(fallback, {"<0xZZ>"}), "<0xZZ>");
}

TEST(MetaspaceDecoder, DropsTheFirstPrefix) {
  EXPECT_EQ(decoded({{"type", "Metaspace"}}, {"\u2581a", "b", "\u2581c"}), "ab c");
  EXPECT_EQ(decoded({{"type", "Metaspace"}, {"prepend_scheme", "never"}}, {"\u2581a"}), " a");
}

TEST(OtherDecoders, DoWhatTheirNamesSay) {
  EXPECT_EQ(decoded({{"type", "WordPiece"}}, {"##a", "##b", "c", ".", "do", "not"}), "##ab c. do not");
  EXPECT_EQ(decoded({{"type", "WordPiece"}, {"cleanup", false}}, {"c", "."}), "c .");
  EXPECT_EQ(decoded({{"type", "BPEDecoder"}}, {"a</w>", "b</w>"}), "a b");
  EXPECT_EQ(
      decoded({{"type", "Strip"}, {"content", "_"}, {"start", 1}, {"stop", 2}}, {"__a___", "b"}), "_a_b");
  EXPECT_EQ(decoded({{"type", "CTC"}}, {"h", "h", "<pad>", "h", "|", "i"}), "hh i");
  EXPECT_EQ(
      decoded({{"type", "Replace"}, {"pattern", {{"Regex", "[ab]"}}}, {"content", "x"}}, {"abc"}), "xxc");
}

TEST(DecoderSequence, StripsTheFusedTextOnce) {
  const Json steps = {{"type", "Sequence"},
      {"decoders", {{{"type", "Replace"}, {"pattern", {{"String", "\u2581"}}}, {"content", " "}},
                       {{"type", "ByteFallback"}}, {{"type", "Fuse"}},
                       {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}}}};
  EXPECT_EQ(decoded(steps, {"\u2581", "\u2581a", "\u2581b"}), " a b");
}

TEST(Decoder, UnknownTypesAreRefused) { EXPECT_THROW(decoded({{"type", "Magic"}}, {}), Error); }

// Streams ids and checks after every step that what came is whole characters.
std::string checked_stream(const Tokenizer& tokenizer, const Ids& ids) {
  StreamDecoder stream(tokenizer, false);
  std::string text;
  for (const int32_t id : ids) {
    const std::string part = stream.push(id);
    RC_ASSERT(is_valid_utf8(part));
    text += part;
  }
  const std::string rest = stream.finish();
  RC_ASSERT(is_valid_utf8(rest));
  return text + rest;
}

TEST(StreamDecoder, PiecesAreValidAndJoinedEqualTheWhole) {
  const auto byte_level = test::load(test::byte_level_json({{"Ã", "©"}, {"Ġ", "a"}}));
  const Json vocab = {{"<unk>", 0}, {"\u2581", 1}, {"a", 2}, {"é", 3}, {"\u2581a", 4}};
  const auto metaspace = test::load(test::metaspace_json(vocab, Json::array(), true));
  EXPECT_TRUE(rc::check("byte level", [&] {
    const Ids ids = *rc::gen::container<Ids>(rc::gen::inRange(-1, 260));
    RC_ASSERT(checked_stream(*byte_level, ids) == byte_level->decode(ids, false));
  }));
  EXPECT_TRUE(rc::check("byte fallback", [&] {
    const Ids ids =
        *rc::gen::container<Ids>(rc::gen::oneOf(rc::gen::inRange(0, 6), rc::gen::inRange(1000, 1256)));
    RC_ASSERT(checked_stream(*metaspace, ids) == metaspace->decode(ids, false));
  }));
}

TEST(StreamDecoder, GivesEachCharacterAsSoonAsItIsWhole) {
  const auto tokenizer = test::load(test::byte_level_json({}));
  StreamDecoder stream(*tokenizer, false);
  EXPECT_EQ(stream.push('a'), "a");
  EXPECT_EQ(stream.push(0xC3), "");
  EXPECT_EQ(stream.push(0xA9), "é");
  EXPECT_EQ(stream.push(0xE2), "");
  EXPECT_EQ(stream.finish(), kBad);
}

}  // namespace
}  // namespace cheetah
