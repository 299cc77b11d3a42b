// SPDX-License-Identifier: MIT
// Holds our ids and texts equal to what the reference library gave for real tokenizers.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/json.h"
#include "model/tokenizer/tokenizer.h"

namespace cheetah {
namespace {

namespace fs = std::filesystem;

std::vector<int32_t> ids_of(const Json& list) { return list.get<std::vector<int32_t>>(); }

TEST(TokenizerOfAReferenceModel, GivesTheIdsTheReferenceImplementationGave) {
  const fs::path models = fs::path(CHEETAH_SOURCE_DIR) / "tests/models";
  int cases = 0;
  for (const auto& folder : fs::directory_iterator(models)) {
    if (!fs::exists(folder.path() / "tokenizer.json")) continue;
    const auto tokenizer = Tokenizer::from_json_file((folder.path() / "tokenizer.json").string());
    const Json golden = read_json_file((folder.path() / "golden.json").string());
    for (const Json& item : golden.at("cases")) {
      const std::vector<int32_t> expected = ids_of(item.at("ids"));
      std::vector<int32_t> ids = tokenizer->encode(item.at("text").get<std::string>(), {});
      if (ids.size() > expected.size()) ids.resize(expected.size());  // the reference is cut at 60 tokens
      EXPECT_EQ(ids, expected) << folder.path();
      EXPECT_EQ(
          tokenizer->decode(ids_of(item.at("greedy")), false), item.at("greedy_text").get<std::string>())
          << folder.path();
      ++cases;
    }
  }
  EXPECT_GT(cases, 0);
}

void check_item(const Tokenizer& tokenizer, const Json& item, const std::string& name) {
  const std::string text = item.at("text");
  const std::vector<int32_t> ids = ids_of(item.at("ids"));
  ASSERT_EQ(tokenizer.encode(text, {}), ids) << name << ": " << item.dump();
  const std::string decoded = item.at("decoded");
  ASSERT_EQ(tokenizer.decode(ids, false), decoded) << name << ": " << item.dump();
  ASSERT_EQ(tokenizer.decode(ids, true), item.value("decoded_skip_special", decoded))
      << name << ": " << item.dump();
  StreamDecoder stream(tokenizer, false);
  std::string streamed;
  for (const int32_t id : ids) streamed += stream.push(id);
  ASSERT_EQ(streamed + stream.finish(), decoded) << name << ": " << item.dump();
}

TEST(RealTokenizers, AgreeWithTheReferenceLibraryTokenByTokenInBothDirections) {
  const char* reference = std::getenv("CHEETAH_REFERENCE_DIR");
  if (!reference)
    GTEST_SKIP()
        << "set CHEETAH_REFERENCE_DIR to a folder with tokenizers/NAME/{tokenizer.json,goldens.json}";
  int tokenizers = 0;
  for (const auto& folder : fs::directory_iterator(fs::path(reference) / "tokenizers")) {
    const std::string name = folder.path().filename().string();
    const auto tokenizer = Tokenizer::from_json_file((folder.path() / "tokenizer.json").string());
    const Json golden = read_json_file((folder.path() / "goldens.json").string());
    for (const Json& item : golden.at("items")) check_item(*tokenizer, item, name);
    EXPECT_EQ(tokenizer->vocab_size(), golden.at("vocab_size").get<int64_t>()) << name;
    std::vector<int32_t> expected = ids_of(golden.at("with_special").at("prefix"));
    const std::vector<int32_t> plain = tokenizer->encode("Hello", {});
    expected.insert(expected.end(), plain.begin(), plain.end());
    for (const int32_t id : ids_of(golden.at("with_special").at("suffix"))) expected.push_back(id);
    EXPECT_EQ(tokenizer->encode("Hello", {.add_special = true}), expected) << name;
    ++tokenizers;
  }
  EXPECT_GT(tokenizers, 0);
}

}  // namespace
}  // namespace cheetah
