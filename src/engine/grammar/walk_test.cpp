// SPDX-License-Identifier: MIT
// Random generation under the mask with the tokens of a real model.
#include <gtest/gtest.h>

#include "engine/grammar/grammar_fixture.h"
#include "engine/grammar/schema_validator.h"

namespace cheetah {
namespace {

const std::vector<std::string>& schemas() {
  static const std::vector<std::string> kSchemas = {
      R"({"type":"object","properties":{"name":{"type":"string","maxLength":12},"age":{"type":"integer","minimum":0,"maximum":130}},"required":["name","age"],"additionalProperties":false})",
      R"({"type":"object","properties":{"a":{"type":"string","minLength":2,"maxLength":5},"b":{"type":"boolean"},"c":{"type":"null"}},"required":["b"]})",
      R"({"type":"array","items":{"type":"integer","minimum":-17,"maximum":42},"minItems":2,"maxItems":5})",
      R"({"type":"array","prefixItems":[{"type":"string","maxLength":3},{"type":"number"},{"enum":["x","y"]}],"items":false,"minItems":2})",
      R"({"enum":["red","green",3,null,{"k":[1,2]}]})",
      R"({"anyOf":[{"type":"string","format":"date"},{"type":"integer","exclusiveMinimum":9,"exclusiveMaximum":12},{"type":"null"}]})",
      R"({"type":"number","minimum":-1.5,"maximum":2.25})",
      R"({"type":"number","exclusiveMinimum":0.125,"exclusiveMaximum":0.5})",
      R"({"type":"object","additionalProperties":{"type":"number"},"maxProperties":3})",
      R"({"type":"object","properties":{"id":{"type":"integer"}},"required":["id"],"additionalProperties":{"type":"string","maxLength":4},"maxProperties":4})",
      R"({"type":"object","patternProperties":{"^x-[a-z]{1,8}$":{"type":"integer"}},"additionalProperties":false,"minProperties":1})",
      R"({"$defs":{"node":{"type":"object","properties":{"value":{"type":"integer"},"children":{"type":"array","items":{"$ref":"#/$defs/node"}}},"required":["value"]}},"$ref":"#/$defs/node"})",
      R"({"oneOf":[{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"number"}},"required":["kind","r"]},{"type":"object","properties":{"kind":{"const":"box"},"w":{"type":"number"},"h":{"type":"number"}},"required":["w","h"]}]})",
      R"({"allOf":[{"type":"object","properties":{"a":{"type":"integer","minimum":3}},"required":["a"]},{"properties":{"a":{"maximum":9},"b":{"type":"string","maxLength":2}},"required":["b"]}]})",
      R"({"type":["string","integer","null"],"maxLength":6,"minimum":5})",
      R"({"type":"object","properties":{"when":{"type":"string","format":"date-time"},"id":{"type":"string","format":"uuid"},"mail":{"type":"string","format":"email"},"ip":{"type":"string","format":"ipv4"},"link":{"type":"string","format":"uri"}},"required":["when","id","mail","ip","link"]})",
      R"({"type":"string","pattern":"^[A-Z]{2}-[0-9]{3,5}(\\.[a-f]+)?$"})",
      R"({"type":"string","pattern":"^[a-z ]*[0-9]$","minLength":4,"maxLength":20})",
      R"({"type":"array","items":{"type":"array","items":{"type":"boolean"},"maxItems":3},"maxItems":4})",
      R"({"type":"object","properties":{"a":true,"b":{"type":"object"},"c":{"type":"array"}},"required":["a","b","c"]})",
      R"({"type":"object","properties":{"n":{"type":"integer","multipleOf":7},"p":{"type":"number","multipleOf":0.01},"q":{"type":"integer","multipleOf":5,"minimum":-20,"maximum":20},"s":{"type":"string","nullable":true,"maxLength":3}},"required":["n","p","q","s"]})",
      R"({"type":"object","properties":{"p0":{"type":"integer"},"p1":{"type":"integer"},"p2":{"type":"integer"},"p3":{"type":"integer"}},"minProperties":2,"maxProperties":3,"additionalProperties":false})",
  };
  return kSchemas;
}

TEST(GrammarWalk, AThousandRandomGenerationsUnderTwentySchemasAreAllValid) {
  const Vocabulary vocabulary = model_vocabulary();
  GrammarRuntime runtime;
  int generations = 0;
  for (const std::string& text : schemas()) {
    const auto program = GrammarProgram::from_json_schema(text, vocabulary);
    const Json schema = Json::parse(text);
    const SchemaValidator validator(schema);
    for (uint64_t seed = 0; seed < 50; ++seed, ++generations) {
      const Walk walk = random_walk(runtime.start(program), *vocabulary, seed, 5 + static_cast<int>(seed));
      ASSERT_TRUE(walk.finished) << text << "\n" << walk.text;
      ASSERT_TRUE(Json::accept(walk.text)) << text << "\n" << walk.text;
      ASSERT_TRUE(validator.valid(Json::parse(walk.text))) << text << "\n" << walk.text;
    }
  }
  EXPECT_GE(generations, 1000);
}

TEST(GrammarWalk, MasksEqualTheTokenByTokenSimulation) {
  const Vocabulary vocabulary = model_vocabulary();
  std::vector<std::shared_ptr<const GrammarProgram>> programs;
  for (const std::string& text : schemas())
    programs.push_back(GrammarProgram::from_json_schema(text, vocabulary));
  programs.push_back(GrammarProgram::any_json_object(vocabulary));
  programs.push_back(GrammarProgram::from_regex("(?:the |an? )?[a-z]{2,9}(?: [a-z]+){0,4}[.!?]", vocabulary));
  for (const auto& program : programs) {
    Walk walk = random_walk(GrammarState(program), *vocabulary, 3, 25);
    if (walk.tokens.size() > 40) walk.tokens.resize(40);
    GrammarState state(program);
    for (const int32_t token : walk.tokens) {
      const std::vector<uint64_t> words = mask_of(state, *vocabulary);
      for (int32_t id = 0; id < vocabulary->size(); ++id) {
        GrammarState copy = state;
        ASSERT_EQ(allows(words, id), copy.accept(id))
            << walk.text << " token " << id << vocabulary->bytes(id);
      }
      ASSERT_TRUE(state.accept(token));
    }
  }
}

TEST(GrammarWalk, ReplayedTokensGiveAnEqualState) {
  const Vocabulary vocabulary = model_vocabulary();
  for (const std::string& text : schemas()) {
    const auto program = GrammarProgram::from_json_schema(text, vocabulary);
    GrammarRuntime runtime;
    for (uint64_t seed = 0; seed < 5; ++seed) {
      const Walk walk = random_walk(runtime.start(program), *vocabulary, seed, 20);
      GrammarState original = runtime.start(program), replayed(program);
      for (const int32_t token : walk.tokens) {
        ASSERT_TRUE(original.accept(token));
        ASSERT_TRUE(replayed.accept(token));
        ASSERT_EQ(mask_of(original, *vocabulary), mask_of(replayed, *vocabulary));
      }
      EXPECT_TRUE(replayed.is_complete());
    }
  }
}

TEST(GrammarWalk, AnyJsonObjectIsJsonAtEveryDepth) {
  const Vocabulary vocabulary = model_vocabulary();
  const auto program = GrammarProgram::any_json_object(vocabulary);
  GrammarRuntime runtime;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Walk walk = random_walk(runtime.start(program), *vocabulary, seed, 120);
    ASSERT_TRUE(walk.finished) << walk.text;
    ASSERT_TRUE(Json::accept(walk.text)) << walk.text;
    EXPECT_EQ(walk.text[0], '{');
  }
}

}  // namespace
}  // namespace cheetah
