// SPDX-License-Identifier: MIT
#include "cli/render_input.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace cheetah {
namespace {

RenderInput read(std::string_view text) {
  return read_render_input(text, "input.json", [](const std::string& model) { return model; });
}

TEST(RenderInput, KeepsTheOrderOfKeysAndDefaultsToolsToNone) {
  const RenderInput input =
      read(R"({"template":"x","messages":[{"z":1,"a":2}],"now":"2024-07-26T12:34:56","extra":[1]})");
  EXPECT_EQ(input.source, "x");
  EXPECT_EQ(input.now, 1721997296);
  EXPECT_EQ(input.variables,
      R"({"tools":null,"documents":null,"add_generation_prompt":false,"messages":[{"z":1,"a":2}],"extra":[1]})");
}

TEST(RenderInput, ReadsTimesInTheUsualForms) {
  EXPECT_EQ(parse_time("1970-01-02"), 86400);
  EXPECT_EQ(parse_time("2024-07-26 12:34"), 1721997240);
  EXPECT_EQ(parse_time("2024-07-26T12:34:56Z"), 1721997296);
  EXPECT_EQ(parse_time("2024-07-26T12:34:56.789"), 1721997296);
  for (const char* text : {"", "yesterday", "2024-13-01", "2024-02-30", "2024-07-26T25:00:00", "2024-07-26x"})
    EXPECT_THROW(parse_time(text), Error) << text;
  EXPECT_EQ(read(R"({"template":"x","now":5})").now, 5);
}

TEST(RenderInput, ExplainsWhatIsWrong) {
  for (const char* text :
      {"", "[]", "{", R"({"messages":[]})", R"({"template":1})", R"({"template":"x","now":[]})"})
    EXPECT_THROW(read(text), Error) << text;
}

TEST(RenderInput, TakesTemplateAndSpecialTokensFromAModelDirectory) {
  const std::string model = std::string(CHEETAH_SOURCE_DIR) + "/tests/models/llama";
  const RenderInput input = read(R"({"model":")" + model + R"(","messages":[]})");
  EXPECT_FALSE(input.source.empty());
  EXPECT_NE(input.variables.find("eos_token"), std::string::npos);
}

}  // namespace
}  // namespace cheetah
