// SPDX-License-Identifier: MIT
#include "serve/api/structural_tag.h"

#include <gtest/gtest.h>

#include "engine/grammar/grammar.h"
#include "serve/api/api_fixture.h"

namespace cheetah {
namespace {

std::string chat(const std::string& more) {
  return R"({"model":"cub","max_tokens":60,"messages":[{"role":"user","content":"Hi"}],)" + more + "}";
}

const std::string kStructures =
    R"({"type":"structural_tag","structures":[
       {"begin":"<function=add>","schema":{"type":"object","properties":{"n":{"enum":[1,2]}},"required":["n"],
        "additionalProperties":false},"end":"</function>"},
       {"begin":"<function=now>","schema":{"type":"object","additionalProperties":false},"end":"</function>"}],
       "triggers":["<function="]})";
const std::string kFormat =
    R"({"type":"structural_tag","format":{"type":"triggered_tags","triggers":["<a>"],"at_least_one":true,
       "stop_after_first":true,"tags":[{"begin":"<a>","content":{"type":"json_schema","json_schema":{"const":7}},
       "end":"</a>"}]}})";

bool follows(const std::string& more, const std::string& text) {
  const ApiCall call = accepted(parse_chat_completion, chat(more));
  if (call.requests.empty() || !call.requests[0].grammar) return false;
  GrammarState state(call.requests[0].grammar);
  return state.accept_bytes(text) && state.is_complete();
}

TEST(StructuralTag, FreeTextWithTagsThatFollowTheirSchemas) {
  for (const std::string& more : {R"("response_format":)" + kStructures,
           R"("structured_outputs":{"structural_tag":)" + kStructures + "}",
           R"("structured_outputs":{"structural_tag":)" + dump_json(Json(kStructures)) + "}"}) {
    EXPECT_TRUE(follows(more, "Just text."));
    EXPECT_TRUE(follows(more, R"(So <function=add>{"n":2}</function> and <function=now>{}</function>.)"));
    EXPECT_FALSE(follows(more, R"(<function=add>{"n":3}</function>)"));
    EXPECT_FALSE(follows(more, "<function=other>"));
    EXPECT_FALSE(follows(more, R"(<function=add>{"n":2})"));
  }
}

TEST(StructuralTag, TheFormatSaysHowManyTagsThereAre) {
  const std::string more = R"("response_format":)" + kFormat;
  EXPECT_TRUE(follows(more, "so <a>7</a> it is"));
  EXPECT_FALSE(follows(more, "none"));
  EXPECT_FALSE(follows(more, "<a>7</a><a>7</a>"));
  EXPECT_TRUE(follows(
      R"("response_format":{"type":"structural_tag","format":{"type":"tag","begin":"[","content":
         {"type":"json_schema","json_schema":{"const":1}},"end":"]"}})",
      "[1]"));
  EXPECT_TRUE(follows(
      R"("response_format":{"type":"structural_tag","format":{"type":"tags_with_separator","separator":",","tags":[
         {"begin":"[","content":{"type":"json_schema","json_schema":{"const":1}},"end":"]"}]}})",
      "[1],[1]"));
}

TEST(StructuralTag, TheModelIsHeldToIt) {
  const Json json = run(parse_chat_completion,
      chat(R"("temperature":0,"response_format":{"type":"structural_tag","format":{"type":"tag","begin":"<x>",
              "content":{"type":"json_schema","json_schema":{"enum":[10,20]}},"end":"</x>"}})"))
                        .json();
  const std::string text = json["choices"][0]["message"]["content"];
  EXPECT_TRUE(text == "<x>10</x>" || text == "<x>20</x>") << text;
}

TEST(StructuralTag, WhatIsWrongIsNamed) {
  const auto param = [](const std::string& tag) {
    return refused(parse_chat_completion, chat(R"("response_format":{"type":"structural_tag",)" + tag + "}"))
        .param.value_or("");
  };
  const std::string one = R"([{"begin":"<a>","schema":{},"end":"</a>"}])";
  EXPECT_EQ(param(R"("triggers":["<a>"])"), "response_format.structures");
  EXPECT_EQ(param(R"("structures":)" + one), "response_format.triggers");
  EXPECT_EQ(param(R"("triggers":["<b>"],"structures":)" + one), "response_format.triggers");
  EXPECT_EQ(param(R"("triggers":[""],"structures":)" + one), "response_format.triggers[0]");
  EXPECT_EQ(
      param(R"("triggers":["<a>"],"structures":[{"schema":{}}])"), "response_format.structures[0].begin");
  EXPECT_EQ(param(R"("triggers":["<a>"],"structures":[{"begin":"<a>","schema":7}])"),
      "response_format.structures[0].schema");
  EXPECT_EQ(param(R"("format":{"type":"poem"})"), "response_format.format.type");
}

}  // namespace
}  // namespace cheetah
