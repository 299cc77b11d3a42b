// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/files/model_test_files.h"
#include "model/tokenizer/gguf_patterns.h"
#include "model/tokenizer/regex.h"
#include "model/tokenizer/tokenizer_test_files.h"

namespace cheetah {
namespace {

using test::GgufBuilder;
using test::Ids;
using test::le;

struct Token {
  std::string text;
  float score = 0;
  int32_t type = 1;
};

GgufBuilder vocabulary(const std::string& model, const std::vector<Token>& tokens) {
  std::vector<std::string> texts;
  std::string scores, types;
  for (const Token& token : tokens) {
    texts.push_back(token.text);
    scores += le(token.score);
    types += le(token.type);
  }
  GgufBuilder file;
  file.string("tokenizer.ggml.model", model).strings("tokenizer.ggml.tokens", texts);
  file.array("tokenizer.ggml.scores", 6, tokens.size(), scores);
  file.array("tokenizer.ggml.token_type", 5, tokens.size(), types);
  return file;
}

std::unique_ptr<Tokenizer> load(const GgufBuilder& builder) {
  const std::string bytes = builder.build();
  return Tokenizer::from_gguf(GgufFile::parse(test::as_bytes(bytes), "test.gguf"));
}

std::vector<Token> sentencepiece_tokens() {
  std::vector<Token> tokens = {{"<unk>", 0, 2}, {"<s>", 0, 3}, {"</s>", 0, 3}};
  for (int byte = 0; byte < 256; ++byte)
    tokens.push_back({byte_fallback_token(static_cast<uint8_t>(byte)), 0, 6});
  for (const char* text : {"\u2581", "a", "b", "c", "<", "/", "s", ">"})
    tokens.push_back({text, -1e9F});  // from 259
  tokens.push_back({"ab", -1});       // 267
  tokens.push_back({"bc", -2});       // 268
  tokens.push_back({"\u2581a", -3});  // 269
  tokens.push_back({"</", -4});       // 270
  tokens.push_back({"s>", -5});       // 271
  return tokens;
}

TEST(GgufSentencePiece, JoinsTheBestScoreFirstAndFallsBackToBytes) {
  const auto tokenizer = load(vocabulary("llama", sentencepiece_tokens()));
  EXPECT_EQ(tokenizer->encode("abc", {}), (Ids{259, 267, 262}));
  EXPECT_EQ(tokenizer->encode("abc", {.add_special = true}), (Ids{1, 259, 267, 262}));
  EXPECT_EQ(tokenizer->encode("a é", {}), (Ids{269, 259, 3 + 0xC3, 3 + 0xA9}));
  EXPECT_EQ(tokenizer->decode(Ids{269, 259, 3 + 0xC3, 3 + 0xA9}, true), "a é");
}

TEST(GgufSentencePiece, ControlTokensInUntrustedTextStayText) {
  const auto tokenizer = load(vocabulary("llama", sentencepiece_tokens()));
  EXPECT_EQ(tokenizer->encode("a</s>b", {}), (Ids{269, 2, 259, 261}));
  EXPECT_EQ(tokenizer->encode("</s>", {.parse_special = false}), (Ids{259, 270, 271}));
}

TEST(GgufSentencePiece, AnEndTypedUserDefinedIsShieldedToo) {
  std::vector<Token> tokens = sentencepiece_tokens();
  tokens[2].type = 4;
  const auto tokenizer = load(vocabulary("llama", tokens));
  EXPECT_TRUE(tokenizer->is_special(2));
  EXPECT_EQ(tokenizer->encode("a</s>b", {}), (Ids{269, 2, 259, 261}));
  EXPECT_EQ(tokenizer->encode("</s>", {.parse_special = false}), (Ids{259, 270, 271}));
}

TEST(GgufSentencePiece, TheSpaceInFrontAndTheFrameFollowTheFile) {
  GgufBuilder file = vocabulary("llama", sentencepiece_tokens());
  file.boolean("tokenizer.ggml.add_space_prefix", 0).boolean("tokenizer.ggml.add_bos_token", 0);
  file.boolean("tokenizer.ggml.add_eos_token", 1).u32("tokenizer.ggml.eos_token_id", 2);
  EXPECT_EQ(load(file)->encode("b", {.add_special = true}), (Ids{261, 2}));
}

GgufBuilder byte_level(const std::string& pre, const std::vector<Token>& more = {}) {
  std::vector<Token> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(text, byte_to_char(static_cast<uint8_t>(byte)));
    const bool taken = std::ranges::count(more, text, &Token::text) > 0;  // of a byte that no text has
    tokens.push_back({taken ? format("[BYTE_{}]", byte) : text});
  }
  for (const char* text : {"12", "123", "ab", "<s>"}) tokens.push_back({text});
  tokens.back().type = 3;
  tokens.insert(tokens.end(), more.begin(), more.end());
  GgufBuilder file = vocabulary("gpt2", tokens);
  file.strings("tokenizer.ggml.merges", {"1 2", "12 3", "a b"}).string("tokenizer.ggml.pre", pre);
  return file;
}

TEST(GgufBpe, TheNameOfThePreTokenizerDecidesWhereTextIsCut) {
  EXPECT_EQ(load(byte_level("gpt-2"))->encode("123ab", {}), (Ids{257, 258}));
  EXPECT_EQ(load(byte_level("qwen2"))->encode("123ab", {}), (Ids{'1', '2', '3', 258}));
  EXPECT_EQ(load(byte_level("llama-bpe"))->encode("1231<s>", {}), (Ids{257, '1', 259}));
  EXPECT_EQ(load(byte_level("starcoder"))->encode("12", {}), (Ids{'1', '2'}));
  EXPECT_EQ(load(byte_level("gpt-2"))->decode(Ids{257, 258, 259}, true), "123ab");
}

TEST(GgufBpe, UserDefinedTokensAreTextNotBytes) {
  const auto tokenizer = load(byte_level("deepseek-llm", {{"ö", 0, 4}, {"   ", 0, 4}, {"<|eot_id|>", 0, 1}}));
  EXPECT_EQ(tokenizer->encode("ö", {}), (Ids{260}));
  EXPECT_EQ(tokenizer->decode(Ids{260, 258, 261, 260}, true), "öab   ö");
  StreamDecoder stream(*tokenizer, true);
  EXPECT_EQ(stream.push(260), "ö");
  EXPECT_TRUE(tokenizer->is_special(262));
}

TEST(GgufBpe, LlamaNamesAskForABeginningToken) {
  GgufBuilder file = byte_level("llama-bpe");
  file.u32("tokenizer.ggml.bos_token_id", 259);
  EXPECT_EQ(load(file)->encode("ab", {.add_special = true}), (Ids{259, 258}));
}

TEST(GgufBpe, EveryKnownNameHasPatternsThatCompile) {
  for (const char* name :
      {"default", "gpt-2", "llama-bpe", "qwen2", "qwen35", "deepseek-llm", "deepseek-coder", "deepseek-v3",
          "falcon", "starcoder", "smollm", "tekken", "gpt-4o", "command-r", "olmo", "dbrx", "mpt", "refact",
          "jais", "bloom", "viking", "chatglm-bpe", "chameleon", "kimi-k2", "superbpe", "bailingmoe",
          "seed-coder", "exaone-moe", "youtu", "minicpm5", "jais-2", "tiny_aya", "gemma4"}) {
    const auto pre_tokenizer = gguf_pre_tokenizer(name);
    ASSERT_TRUE(pre_tokenizer) << name;
    for (const std::string& pattern : pre_tokenizer->patterns) EXPECT_NO_THROW(Regex(pattern, name)) << name;
  }
  EXPECT_FALSE(gguf_pre_tokenizer("nobody-knows"));
}

TEST(GgufBert, WordsStartWithAPhantomSpace) {
  const std::vector<Token> tokens = {{"[PAD]", 0, 3}, {"[UNK]", 0, 3}, {"[CLS]", 0, 3}, {"[SEP]", 0, 3},
      {"\u2581un"}, {"able"}, {"\u2581!"}};
  GgufBuilder file = vocabulary("bert", tokens);
  file.u32("tokenizer.ggml.unknown_token_id", 1).u32("tokenizer.ggml.bos_token_id", 2);
  file.u32("tokenizer.ggml.seperator_token_id", 3);
  const auto tokenizer = load(file);
  EXPECT_EQ(tokenizer->encode("Unable!", {}), (Ids{4, 5, 6}));
  EXPECT_EQ(tokenizer->encode("x un", {.add_special = true}), (Ids{2, 1, 4, 3}));
  EXPECT_EQ(tokenizer->decode(Ids{4, 5, 6}, true), "unable !");
}

TEST(GgufUnigram, TakesTheMostProbableCut) {
  const std::vector<Token> tokens = {
      {"<pad>", 0, 3}, {"</s>", 0, 3}, {"<unk>", 0, 2}, {"\u2581a", -1}, {"b", -2}, {"\u2581ab", -9}};
  const auto tokenizer = load(vocabulary("t5", tokens));
  EXPECT_EQ(tokenizer->encode("ab", {.add_special = true}), (Ids{3, 4, 1}));
  EXPECT_EQ(tokenizer->decode(Ids{3, 4}, true), "ab");
}

std::string error_of(const GgufBuilder& file) {
  try {
    load(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(GgufVocabulary, ErrorsNameTheField) {
  const std::vector<Token> tokens = sentencepiece_tokens();
  EXPECT_NE(error_of(GgufBuilder()).find("tokenizer.ggml.model"), std::string::npos);
  EXPECT_NE(error_of(vocabulary("magic", tokens)).find("\"magic\" is unknown"), std::string::npos);
  EXPECT_NE(error_of(byte_level("magic")).find("\"magic\" is not known"), std::string::npos);
  EXPECT_NE(error_of(vocabulary("llama", {{"a"}, {"a"}})).find("stands twice"), std::string::npos);
  EXPECT_NE(error_of(vocabulary("llama", {{"a", NAN}, {"b"}})).find("finite"), std::string::npos);
  EXPECT_NE(error_of(vocabulary("gpt2", {{"a"}})).find("merges"), std::string::npos);
  EXPECT_NE(error_of(vocabulary("llama", {{"\xFF"}})).find("UTF-8"), std::string::npos);
  GgufBuilder bos = vocabulary("llama", tokens);
  bos.u32("tokenizer.ggml.bos_token_id", 1 << 20);
  EXPECT_NE(error_of(bos).find("bos_token_id is 1048576"), std::string::npos);
  GgufBuilder few;
  few.string("tokenizer.ggml.model", "llama").strings("tokenizer.ggml.tokens", {"a", "b"});
  few.array("tokenizer.ggml.scores", 6, 1, le(1.0F));
  EXPECT_NE(error_of(few).find("1 entries for 2 tokens"), std::string::npos);
}

}  // namespace
}  // namespace cheetah
