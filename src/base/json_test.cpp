// SPDX-License-Identifier: MIT
#include "base/json.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "base/error.h"

namespace cheetah {
namespace {

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Json, ParsesNestedValues) {
  const Json value = parse_json(R"({"a": [1, 2.5, "x", null, true], "b": {"c": -7}})", "t");
  EXPECT_EQ(value["a"][2], "x");
  EXPECT_EQ(value["b"]["c"], -7);
}

TEST(Json, NamesTheFileAndTheByteOfASyntaxError) {
  const std::string message = error_of([] { parse_json("{\"a\": }", "config.json"); });
  EXPECT_NE(message.find("config.json: invalid JSON at byte"), std::string::npos) << message;
}

TEST(Json, RefusesDepthDuplicateKeysAndBadUtf8) {
  EXPECT_NE(error_of([] { parse_json(std::string(100000, '['), "deep"); }).find("deeper than 64"),
      std::string::npos);
  EXPECT_NE(
      error_of([] { parse_json(R"({"a":1,"a":2})", "twice"); }).find("stands twice"), std::string::npos);
  EXPECT_NE(error_of([] { parse_json("\"\xff\"", "bytes"); }), "");
}

TEST(JsonFields, NamesTheFieldItsValueAndTheRange) {
  const Json value = parse_json(R"({"heads": 0, "name": 3})", "config.json");
  const JsonFields fields(value, "config.json");
  EXPECT_EQ(error_of([&] { fields.integer("heads", 1, 8); }),
      "config.json: field \"heads\" is 0, expected a whole number from 1 to 8");
  EXPECT_EQ(error_of([&] { fields.integer("layers", 1, 8); }), "config.json: field \"layers\" is missing");
  EXPECT_NE(error_of([&] { fields.string("name"); }), "");
  EXPECT_EQ(fields.integer_or("absent", 5, 0, 9), 5);
}

}  // namespace
}  // namespace cheetah
