// SPDX-License-Identifier: MIT
#include "engine/grammar/model_vocabulary.h"

#include <gtest/gtest.h>

#include "engine/grammar/grammar_fixture.h"
#include "model/tokenizer/tokenizer_test_files.h"

namespace cheetah {
namespace {

TEST(ModelVocabulary, ByteLevelTokensGiveTheirRawBytes) {
  const auto tokenizer = test::load(test::byte_level_json({{"a", "b"}, {"\u0120", "a"}}));
  const auto vocabulary = make_model_vocabulary(*tokenizer, 300, {299});
  EXPECT_EQ(vocabulary->size(), 300);
  for (int byte = 0; byte < 256; ++byte)
    EXPECT_EQ(vocabulary->bytes(byte), std::string(1, static_cast<char>(byte))) << byte;
  EXPECT_EQ(vocabulary->bytes(256), "ab");
  EXPECT_EQ(vocabulary->bytes(257), " a");
  EXPECT_EQ(vocabulary->bytes(258), "");
}

TEST(ModelVocabulary, SentencePieceTokensGiveTheirRawBytes) {
  const auto tokenizer =
      test::load(test::metaspace_json({{"<unk>", 0}, {"\u2581", 1}, {"a", 2}, {"\u2581a", 3}, {"\u00e9", 4}},
          Json::array({{"\u2581", "a"}}), true));
  const auto vocabulary = make_model_vocabulary(*tokenizer, tokenizer->vocab_size(), {});
  EXPECT_EQ(vocabulary->bytes(1), " ");
  EXPECT_EQ(vocabulary->bytes(2), "a");
  EXPECT_EQ(vocabulary->bytes(3), " a");
  EXPECT_EQ(vocabulary->bytes(4), "\xC3\xA9");
  for (int byte = 0; byte < 256; ++byte)
    EXPECT_EQ(vocabulary->bytes(1000 + byte), std::string(1, static_cast<char>(byte))) << byte;
}

TEST(ModelVocabulary, EncodedTextIsTheJoinedBytesOfItsTokens) {
  const auto tokenizer = Tokenizer::from_json_file(CHEETAH_SOURCE_DIR "/models/cub-7m/tokenizer.json");
  const auto vocabulary = make_model_vocabulary(*tokenizer, tokenizer->vocab_size(), {0});
  const Vocabulary expected = model_vocabulary();
  ASSERT_EQ(vocabulary->size(), expected->size());
  for (int32_t id = 0; id < vocabulary->size(); ++id)
    ASSERT_EQ(vocabulary->bytes(id), expected->bytes(id)) << id;
  const std::string text = "{\"name\": \"Z\xC3\xBCrich \xF0\x9F\x98\x80\",\n  \"n\": [1, 2.5e-3]}";
  std::string joined;
  for (const int32_t id : tokenizer->encode(text, {})) joined += vocabulary->bytes(id);
  EXPECT_EQ(joined, text);
}

}  // namespace
}  // namespace cheetah
