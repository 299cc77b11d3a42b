// SPDX-License-Identifier: MIT
// Files that break the rules end in one sentence that names the file and the fault.
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/format.h"
#include "model/tokenizer/tokenizer_test_files.h"
#include "model/tokenizer/vocabulary.h"

namespace cheetah {
namespace {

std::string error_of(const std::string& text) {
  try {
    Tokenizer::from_json(text, "bad.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "(no error)";
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

struct BadJson {
  const char* rule;
  std::function<void(Json&)> spoil;
  const char* message;
};

void expect_errors(const std::vector<BadJson>& files) {
  for (const BadJson& file : files) {
    Json json = test::byte_level_json({{"a", "b"}});
    file.spoil(json);
    const std::string error = error_of(dump_json(json));
    EXPECT_TRUE(error.starts_with("bad.json: ")) << file.rule << ": " << error;
    EXPECT_NE(error.find(file.message), std::string::npos) << file.rule << ": " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << file.rule << ": " << error;
  }
}

TEST(TokenizerLoader, RefusesWhatIsNoTokenizer) {
  EXPECT_NE(error_of("").find("invalid JSON"), std::string::npos);
  EXPECT_NE(error_of("{\"model\":").find("invalid JSON"), std::string::npos);
  EXPECT_NE(error_of("[]").find("expected a JSON object"), std::string::npos);
  EXPECT_NE(error_of("{}").find("no \"model\""), std::string::npos);
  EXPECT_NE(error_of("{\"model\":{\"type\":\"BPE\"}}").find("no \"vocab\""), std::string::npos);
  EXPECT_NE(error_of("{\"a\":" + std::string(100, '[')).find("nested deeper"), std::string::npos);
  EXPECT_NE(error_of(R"({"model":{"vocab":{},"vocab":{}}})").find("stands twice"), std::string::npos);
  EXPECT_NE(error_of("{\"model\":{\"vocab\":{\"\xFF\":1}}}").find("invalid JSON"), std::string::npos);
  EXPECT_THROW(Tokenizer::from_json_file("/nonexistent/tokenizer.json"), Error);
}

TEST(TokenizerLoader, NamesWhatIsWrongInTheVocabulary) {
  expect_errors({
      {"version", [](Json& j) { j["version"] = "9"; }, "version"},
      {"model type", [](Json& j) { j["model"]["type"] = "Magic"; }, "\"Magic\" is unknown"},
      {"negative id", [](Json& j) { j["model"]["vocab"]["x"] = -1; }, "id -1"},
      {"huge id", [](Json& j) { j["model"]["vocab"]["x"] = 1ULL << 63; }, "expected 0 to"},
      {"fraction", [](Json& j) { j["model"]["vocab"]["x"] = 1.5; }, "whole numbers"},
      {"not a number", [](Json& j) { j["model"]["vocab"]["x"] = "1"; }, "whole numbers"},
      {"nested", [](Json& j) { j["model"]["vocab"]["x"] = Json::object(); }, "token ids"},
      {"shared id", [](Json& j) { j["model"]["vocab"]["xx"] = 5; }, "share the id 5"},
      {"long token", [](Json& j) { j["model"]["vocab"][std::string(70000, 'x')] = 900; }, "limit"},
      {"list for BPE",
          [](Json& j) {
            j["model"]["vocab"] = Json::array({Json::array({"a", 1.0})});
          },
          "BPE model needs"},
      {"object for Unigram", [](Json& j) { j["model"]["type"] = "Unigram"; }, "Unigram model needs"},
  });
}

TEST(TokenizerLoader, NamesTheMergeThatIsWrong) {
  expect_errors({
      {"unknown left",
          [](Json& j) {
            j["model"]["merges"] = Pairs{{"zz", "a"}};
          },
          "needs \"zz\""},
      {"unknown result",
          [](Json& j) {
            j["model"]["merges"] = Pairs{{"a", "b"}, {"b", "a"}};
          },
          "merge 1"},
      {"three parts", [](Json& j) { j["model"]["merges"] = {"a b c"}; }, "merge 0 is neither"},
      {"one part", [](Json& j) { j["model"]["merges"] = {"ab"}; }, "merge 0 is neither"},
      {"triple",
          [](Json& j) {
            j["model"]["merges"] = Json::array({Json::array({"a", "b", "c"})});
          },
          "merge 0 is neither"},
      {"single", [](Json& j) { j["model"]["merges"] = Json::array({Json::array({"a"})}); },
          "merge 0 is neither"},
      {"number", [](Json& j) { j["model"]["merges"] = {1}; }, "merge 0 is neither"},
      {"twice",
          [](Json& j) {
            j["model"]["merges"] = Pairs{{"a", "b"}, {"a", "b"}};
          },
          "stands twice"},
  });
}

Json token(const std::string& content, int64_t id) {
  return {{"content", content}, {"id", id}, {"special", true}};
}

TEST(TokenizerLoader, NamesTheAddedTokenThatIsWrong) {
  expect_errors({
      {"no list", [](Json& j) { j["added_tokens"] = 3; }, "not a list"},
      {"empty", [](Json& j) { j["added_tokens"] = Json::array({token("", 300)}); }, "0 bytes"},
      {"long", [](Json& j) { j["added_tokens"] = Json::array({token(std::string(1 << 20, 'x'), 300)}); },
          "1048576 bytes"},
      {"twice",
          [](Json& j) {
            j["added_tokens"] = Json::array({token("<a>", 300), token("<a>", 301)});
          },
          "stands twice"},
      {"same id",
          [](Json& j) {
            j["added_tokens"] = Json::array({token("<a>", 300), token("<b>", 300)});
          },
          "share the id"},
      {"other id", [](Json& j) { j["added_tokens"] = Json::array({token("a", 300)}); }, "in the vocabulary"},
      {"taken id", [](Json& j) { j["added_tokens"] = Json::array({token("<a>", 97)}); }, "has the id 97"},
      {"id range", [](Json& j) { j["added_tokens"] = Json::array({token("<a>", 1LL << 40)}); }, "id"},
      {"too many", [](Json& j) { j["added_tokens"] = Json(70000, token("<a>", 300)); }, "limit of 65536"},
  });
}

TEST(TokenizerLoader, NamesTheStepThatIsWrong) {
  expect_errors({
      {"normalizer",
          [](Json& j) {
            j["normalizer"] = {{"type", "Magic"}};
          },
          "\"Magic\""},
      {"pre-tokenizer",
          [](Json& j) {
            j["pre_tokenizer"] = {{"type", "Magic"}};
          },
          "\"Magic\""},
      {"post-processor",
          [](Json& j) {
            j["post_processor"] = {{"type", "Magic"}};
          },
          "\"Magic\""},
      {"decoder",
          [](Json& j) {
            j["decoder"] = {{"type", "Magic"}};
          },
          "\"Magic\""},
      {"no type", [](Json& j) { j["decoder"] = Json::object(); }, "\"type\" is missing"},
      {"regex",
          [](Json& j) {
            j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "("}}}, {"behavior", "Isolated"}};
          },
          "cannot be used"},
      {"behavior",
          [](Json& j) {
            j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "X"}};
          },
          "behavior \"X\""},
      {"charsmap",
          [](Json& j) {
            j["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}};
          },
          "precompiled_charsmap"},
      {"template",
          [](Json& j) {
            j["post_processor"] = {{"type", "TemplateProcessing"}, {"single", Json::array()}};
          },
          "once"},
  });
}

TEST(TokenizerLoader, RefusesScoresThatAreNoNumbersAndUnknownIdsOutOfRange) {
  const std::string start = R"({"model":{"type":"Unigram","vocab":[["a",)";
  EXPECT_NE(error_of(start + "1e999]]}}").find("invalid JSON"), std::string::npos);
  EXPECT_NE(error_of(start + "null]]}}").find("pairs of a token and a score"), std::string::npos);
  EXPECT_NE(error_of(start + "-1.0],[\"b\"]]}}").find("pairs of a token and a score"), std::string::npos);
  EXPECT_NE(error_of(start + "-1.0]],\"unk_id\":7}}").find("unk_id"), std::string::npos);
}

TEST(Encoding, NeverFailsOnBrokenUtf8) {
  const auto tokenizer = test::load(test::byte_level_json({}));
  for (const std::string text : {"\xFF", "\x80", "\xC0\xAF", "\xED\xA0\x80", "\xF4\x90\x80\x80", "a\xE2\x82"})
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text, {}), false), repair_utf8(text));
  EXPECT_EQ(tokenizer->encode(std::string_view("\0", 1), {}), (test::Ids{0}));
}

TEST(Encoding, LongRunsOfOneCharacterStayLinear) {
  Json json = test::byte_level_json({{"Ġ", "Ġ"}, {"a", "a"}});
  for (const char* normalizer : {"NFC", "NFKD"}) {
    json["normalizer"] = {{"type", normalizer}};
    const auto tokenizer = test::load(json);
    for (const std::string part : {"a", " ", "\n", "\u0301", "\u202E", "1", "!", "é"}) {
      std::string text;
      while (text.size() < 400'000) text += part;
      EXPECT_FALSE(tokenizer->encode(text, {}).empty());
    }
  }
}

TEST(Tokenizer, TellsItsTokens) {
  Json json = test::byte_level_json({{"a", "b"}});
  json["added_tokens"] = Json::array({token("<s>", 300)});
  const auto tokenizer = test::load(json);
  EXPECT_EQ(tokenizer->vocab_size(), 301);
  EXPECT_EQ(tokenizer->id_of("ab"), 256);
  EXPECT_EQ(tokenizer->id_of("<s>"), 300);
  EXPECT_EQ(tokenizer->id_of("nope"), std::nullopt);
  EXPECT_EQ(tokenizer->token_text(256), "ab");
  EXPECT_EQ(tokenizer->token_text(280), "");
  EXPECT_EQ(tokenizer->token_text(-1), "");
  EXPECT_EQ(tokenizer->decode(test::Ids{-5, 280, 99999, 'a'}, false), "a");
}

}  // namespace
}  // namespace cheetah
