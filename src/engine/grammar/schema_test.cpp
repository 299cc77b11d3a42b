// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/grammar_fixture.h"
#include "engine/grammar/schema_validator.h"

namespace cheetah {
namespace {

// The texts of at most `length` bytes over `alphabet` that the grammar accepts: only live prefixes are
// extended.
void accepted_texts(const GrammarState& state, std::string_view alphabet, size_t length, std::string& text,
    std::vector<std::string>& out) {
  if (state.is_complete()) out.push_back(text);
  if (text.size() == length || out.size() > 20000) return;
  for (const char c : alphabet) {
    GrammarState next = state;
    if (!next.accept_bytes(std::string_view(&c, 1))) continue;
    text.push_back(c);
    accepted_texts(next, alphabet, length, text, out);
    text.pop_back();
  }
}

struct Exhaustive {
  const char* schema;
  const char* alphabet;
  size_t length;
  bool exact = true;  // every compact text that is valid is accepted too
};

// All texts over the alphabet that parse as JSON and equal their compact form.
std::vector<std::string> compact_texts(const std::string& alphabet, size_t length) {
  std::vector<std::string> all = {""}, compact;
  for (size_t i = 0; i < all.size(); ++i) {
    const Json value = Json::parse(all[i], nullptr, false);
    if (!value.is_discarded() && all[i].find(' ') == std::string::npos) compact.push_back(all[i]);
    if (all[i].size() < length)
      for (const char c : alphabet) all.push_back(all[i] + c);
  }
  return compact;
}

TEST(GrammarSchema, AcceptsExactlyTheValidTextsOverSmallAlphabets) {
  const std::vector<Exhaustive> cases = {
      {R"({"type":"integer","minimum":-3,"maximum":12})", "-0123", 4},
      {R"({"type":"integer","minimum":95,"maximum":110})", "01569", 4},
      {R"({"type":"integer","exclusiveMinimum":-12,"exclusiveMaximum":-1})", "-012", 4},
      {R"({"type":"integer","minimum":-1.5,"maximum":20.5})", "-012", 4},
      {R"({"type":"integer","minimum":99})", "0189", 5},
      {R"({"type":"integer","maximum":-9})", "-0189", 5},
      {R"({"type":"number","minimum":-1.2,"maximum":0.5})", "-0125.", 6, false},
      {R"({"type":"number","exclusiveMinimum":1.25,"exclusiveMaximum":1.5})", "0125.", 6},
      {R"({"type":"number","minimum":1,"maximum":2})", "0129.", 5},
      {R"({"type":"number","exclusiveMinimum":0})", "-01.", 5},
      {R"({"type":"number","maximum":-0.5})", "-0145.", 6},
      {R"({"type":"integer","multipleOf":3})", "-01234", 4, false},
      {R"({"type":"integer","multipleOf":4,"minimum":-9,"maximum":13})", "-01248", 3, false},
      {R"({"type":"string","minLength":1,"maxLength":2})", "\"ab", 5},
      {R"({"type":"string","pattern":"a+b"})", "\"ab", 7},
      {R"({"type":"string","pattern":"a+b","minLength":3,"maxLength":4})", "\"ab", 7},
      {R"({"type":"string","pattern":"^[ab]*c$","maxLength":4})", "\"abc", 7},
      {R"({"type":"string","pattern":"^(?:ab|c){1,3}$","minLength":3})", "\"abc", 7},
      {R"({"type":"string","pattern":"^a*b*$","maxLength":3})", "\"ab", 6},
      {R"({"type":"string","pattern":"^a|b$"})", "\"abc", 5},
      {R"({"type":"array","items":{"enum":[1,2]},"minItems":1,"maxItems":2})", "[12,]", 6},
      {R"({"type":"array","prefixItems":[{"const":1},{"const":2}],"items":{"const":3},"minItems":1})",
          "[123,]", 7},
      {R"({"type":"array","prefixItems":[{"const":1},{"const":2}],"items":false})", "[12,]", 6},
      {R"({"type":"array","items":{"type":"array","items":{"const":1},"maxItems":1}})", "[1,]", 8},
      {R"({"anyOf":[{"const":1},{"enum":["a",2]}]})", "12\"a", 4},
      {R"({"type":["null","boolean"]})", "nultrefas", 4},
      {R"({"allOf":[{"minimum":2},{"type":"integer"},{"maximum":11}]})", "-012", 3},
  };
  const Vocabulary vocabulary = byte_vocabulary();
  for (const Exhaustive& c : cases) {
    const Json schema = Json::parse(c.schema);
    const SchemaValidator validator(schema);
    const GrammarState state(GrammarProgram::from_json_schema(c.schema, vocabulary));
    std::vector<std::string> accepted;
    std::string text;
    accepted_texts(state, c.alphabet, c.length, text, accepted);
    for (const std::string& found : accepted) {
      const Json value = Json::parse(found, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << c.schema << " accepts " << found;
      ASSERT_TRUE(validator.valid(value)) << c.schema << " accepts " << found;
    }
    if (!c.exact) continue;
    std::sort(accepted.begin(), accepted.end());
    for (const std::string& expected : compact_texts(c.alphabet, c.length)) {
      const Json value = Json::parse(expected);
      const bool written_plainly = value.is_number_float() ||
                                   value.dump() == expected;  // -0 is left out where a whole number is wanted
      if (!written_plainly || !validator.valid(value)) continue;
      if (value.is_number_float() && schema.value("type", "") == "integer") continue;
      EXPECT_TRUE(std::binary_search(accepted.begin(), accepted.end(), expected))
          << c.schema << " refuses " << expected;
    }
  }
}

struct Instances {
  const char* schema;
  std::vector<const char*> yes, no;
};

TEST(GrammarSchema, ObjectsTakeDeclaredMembersInOrderAndOptionalOnesInAnySubset) {
  const std::vector<Instances> cases = {
      {R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"required":["b"]})",
          {R"({"b":2})", R"({"a":1,"b":2})", R"({"b":2,"c":3})", R"({"a":1,"b":2,"c":3})",
              R"({"a": 1, "b": 2})", "{\n  \"b\": 2\n}", R"({ "b":2 })"},
          {R"({})", R"({"a":1})", R"({"c":3,"b":2})", R"({"b":2,})", R"({,"b":2})", R"({"b":2,"d":4})",
              "{  \"b\":2}"}},
      {R"({"type":"object","properties":{"a":{}},"additionalProperties":{"type":"integer"}})",
          {R"({})", R"({"a":"x"})", R"({"a":[1],"b":2})", R"({"ab":2,"":3,"b":1})", R"({"\"":1})",
              R"({"é":1})"},
          {R"({"b":"x"})", R"({"b":1,"a":2})", R"({"\u0061":1})"}},
      {R"({"type":"object","required":["x"],"additionalProperties":{"type":"null"}})",
          {R"({"x":null})", R"({"x":null,"y":null})"}, {R"({})", R"({"y":null})"}},
      {R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3}},"minProperties":1,"maxProperties":2})",
          {R"({"a":1})", R"({"a":1,"c":3})", R"({"b":2,"c":3})"}, {R"({})", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object","additionalProperties":{"const":0},"minProperties":1,"maxProperties":2})",
          {R"({"x":0})", R"({"x":0,"y":0})"}, {R"({})", R"({"x":0,"y":0,"z":0})"}},
      {R"({"type":"object","patternProperties":{"^n[0-9]$":{"type":"integer"}},"properties":{"id":{"const":7}}})",
          {R"({})", R"({"id":7})", R"({"id":7,"n1":2,"n2":3})", R"({"n9":0})"},
          {R"({"n":1})", R"({"n12":1})", R"({"n1":"x"})"}},
      {R"({"type":"object","properties":{"a/b~c\"":{"const":1}},"required":["a/b~c\""]})",
          {R"({"a/b~c\"":1})"}, {R"({})"}},
      {R"({"type":"object","properties":{"x":{"type":"object","unevaluatedProperties":false}}})",
          {R"({"x":{}})"}, {R"({"x":{"y":1}})"}},
  };
  const Vocabulary vocabulary = byte_vocabulary();
  for (const Instances& c : cases) {
    const GrammarState state(GrammarProgram::from_json_schema(c.schema, vocabulary));
    for (const char* text : c.yes) EXPECT_TRUE(matches(state, text)) << c.schema << " refuses " << text;
    for (const char* text : c.no) EXPECT_FALSE(matches(state, text)) << c.schema << " accepts " << text;
  }
}

TEST(GrammarSchema, CombinesReferencesAndAlternatives) {
  const std::vector<Instances> cases = {
      {R"({"$defs":{"t":{"type":"object","properties":{"v":{"type":"integer"},"l":{"$ref":"#/$defs/t"}},"required":["v"]}},"$ref":"#/$defs/t"})",
          {R"({"v":1})", R"({"v":1,"l":{"v":2,"l":{"v":3}}})"}, {R"({"l":{"v":1}})", R"({"v":1,"l":{}})"}},
      {R"({"type":"array","items":{"anyOf":[{"type":"integer"},{"$ref":"#"}]}})",
          {R"([])", R"([1,[2,[3]],[]])"}, {R"(["x"])", R"([1)"}},
      {R"({"properties":{"k":{"enum":["a","b"]}},"required":["k"],"anyOf":[{"properties":{"k":{"const":"a"},"x":{"const":1}},"required":["x"]},{"properties":{"k":{"const":"b"}}}]})",
          {R"({"k":"a","x":1})", R"({"k":"b"})"}, {R"({"k":"a"})", R"({"k":"c"})"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"string","maxLength":1},{"type":"object","properties":{"t":{"const":"p"}}},{"type":"object","properties":{"t":{"const":"q"}}}]})",
          {R"(7)", R"("x")", R"({"t":"p"})", R"({"t":"q"})"}, {R"({})", R"("xy")"}},
      {R"({"definitions":{"a~b/c":{"const":1}},"$ref":"#/definitions/a~0b~1c"})", {"1"}, {"2"}},
      {R"({"definitions":{"a b":{"const":1}},"$ref":"#/definitions/a%20b"})", {"1"}, {"2"}},
      {R"({"allOf":[{"$ref":"#/$defs/a"},{"properties":{"y":{"const":2}},"required":["y"]}],"$defs":{"a":{"type":"object","properties":{"x":{"const":1}},"required":["x"]}}})",
          {R"({"x":1,"y":2})"}, {R"({"x":1})", R"({"y":2})"}},
      {R"({"type":"string","nullable":true,"maxLength":2})", {"null", R"("ab")"}, {R"("abc")"}},
      {R"({"const":{"b":[1,{"a":null}],"a":"é"}})", {R"({"b":[1,{"a":null}],"a":"é"})"}, {R"({})"}},
      {"true", {"1", R"({"a":[true]})"}, {""}},
      {"{}", {R"("x")", "-0.5e+10"}, {"01", "+1", ".5", "1."}},
      {R"({"type":"string"})", {R"("a\n\u00e9\ud83d\ude00")", "\"\xF0\x9F\x98\x80\""},
          {R"("\ud83d")", R"("\ude00\ud83d")", "\"\n\"", "\"\xC3\"", "\"\xED\xA0\x80\"", R"("\x")"}},
      {R"({"type":"string","maxLength":1})", {R"("\ud83d\ude00")", "\"\xE2\x82\xAC\"", R"("\\")"},
          {R"("ab")", R"("\\\\")"}},
      {R"({"type":"string","format":"date"})", {R"("2024-02-28")"}, {R"("2024-02-30")", R"("2024-13-01")"}},
      {R"({"type":"string","format":"time"})", {R"("23:59:59Z")", R"("00:00:00.5+01:30")"},
          {R"("24:00:00Z")"}},
      {R"({"type":"string","format":"ipv6"})", {R"("::1")", R"("1:2:3:4:5:6:7:8")"}, {R"("1:2:3")"}},
      {R"({"type":"string","format":"duration"})", {R"("P1Y2M3D")", R"("PT5M")", R"("P2W")"},
          {R"("P")", R"("5M")"}},
      {R"({"type":"string","pattern":"^\\d{2}$","minLength":1,"maxLength":3})", {R"("12")"}, {R"("1")"}},
      {R"({"type":"string","pattern":"^[\"\\\\\\n]$"})", {R"("\"")", R"("\\")", R"("\n")"}, {R"("n")"}},
  };
  const Vocabulary vocabulary = byte_vocabulary();
  for (const Instances& c : cases) {
    const GrammarState state(GrammarProgram::from_json_schema(c.schema, vocabulary));
    for (const char* text : c.yes) EXPECT_TRUE(matches(state, text)) << c.schema << " refuses " << text;
    for (const char* text : c.no) EXPECT_FALSE(matches(state, text)) << c.schema << " accepts " << text;
  }
}

std::string nested_arrays(int depth) {
  std::string schema = "{}";
  for (int i = 0; i < depth; ++i)
    schema = std::string(R"({"type":"array","items":)").append(schema).append("}");
  return schema;
}

std::string many(
    const char* open, const std::function<std::string(int)>& entry, int count, const char* close) {
  std::string text = open;
  for (int i = 0; i < count; ++i) text.append(i > 0 ? "," : "").append(entry(i));
  return text + close;
}

TEST(GrammarSchema, WhatItCannotPromiseItRefusesByPointer) {
  const std::vector<std::pair<std::string, const char*>> cases = {
      {"[]", "expected a schema"},
      {"5", "expected a schema"},
      {"{", "invalid JSON"},
      {R"({"type":"strng"})", "at /type"},
      {R"({"type":5})", "at /type"},
      {R"({"type":[]})", "at /type"},
      {R"({"properties":{"a":{"type":"strng"}}})", "at /properties/a/type"},
      {R"({"$ref":"#/$defs/x"})", "leads nowhere"},
      {R"({"$ref":"https://example.com/s.json"})", "only references within the schema"},
      {R"({"$ref":"#"})", "can never finish"},
      {R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})",
          "can never finish"},
      {R"({"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"const":1}]}},"$ref":"#/$defs/a"})",
          "left recursion"},
      {R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})", "can never finish"},
      {R"({"allOf":[{"$ref":"#"}]})", "nesting"},
      {R"({"not":{"type":"null"}})", "unsupported_schema_keyword: /not"},
      {R"({"if":{},"then":{}})", "unsupported_schema_keyword: /if"},
      {R"({"items":{"contains":{}}})", "unsupported_schema_keyword: /items/contains"},
      {R"({"type":"array","uniqueItems":true})", "/uniqueItems"},
      {R"({"type":"object","propertyNames":{"pattern":"a"}})", "/propertyNames"},
      {R"({"type":"integer","minimum":5,"maximum":2})", "minimum is above"},
      {R"({"type":"number","exclusiveMinimum":1,"maximum":1})", "minimum is above"},
      {R"({"type":"string","minLength":5,"maxLength":2})", "/minLength"},
      {R"({"type":"array","minItems":1000000000})", "repetition"},
      {R"({"type":"array","minItems":3,"maxItems":1})", "/minItems"},
      {R"({"type":"array","minItems":-1})", "/minItems"},
      {R"({"type":"integer","multipleOf":0})", "/multipleOf"},
      {R"({"type":"number","multipleOf":0.3})", "/multipleOf"},
      {R"({"type":"integer","minimum":"3"})", "/minimum"},
      {R"({"type":"string","pattern":"("})", "/pattern"},
      {R"x({"type":"string","pattern":"(?=a)"})x", "look-around"},
      {R"({"type":"string","pattern":5})", "/pattern"},
      {R"({"type":"string","pattern":"^a+$","maxLength":0})", "can never finish"},
      {R"({"type":"string","format":"zodiac"})", "/format"},
      {R"({"type":"object","required":["x"],"additionalProperties":false})",
          "can never be satisfied: the member is not declared at /required/0"},
      {R"({"type":"object","required":"x"})", "/required"},
      {R"({"type":"object","properties":[]})", "/properties"},
      {R"({"type":"object","minProperties":3,"additionalProperties":true})", "/minProperties"},
      {R"({"enum":[]})", "/enum"},
      {R"({"enum":["a"],"type":"integer"})", "/enum"},
      {R"({"enum":["a"],"minLength":1})", "/minLength"},
      {R"({"anyOf":[]})", "/anyOf"},
      {R"({"allOf":[{"type":"string"},{"type":"integer"}]})", "can never finish"},
      {R"({"oneOf":[{"type":"string"},{"type":"string","maxLength":3}]})", "/oneOf"},
      {R"({"allOf":[{"pattern":"a"},{"pattern":"b"}]})", "/pattern"},
      {R"({"patternProperties":{"a":{},"b":{"type":"null"}}})", "/patternProperties/b"},
      {R"({"patternProperties":{"^a":{}},"properties":{"abc":{}}})", "/patternProperties/^a"},
      {nested_arrays(33), "nesting"},
      {nested_arrays(1000), "nested"},
      {many(R"({"enum":[)", [](int i) { return std::to_string(i); }, 10001, "]}"), "/enum"},
      {many(R"({"anyOf":[)", [](int i) { return format(R"({{"const":{}}})", i); }, 1000, "]}"), "/anyOf"},
      {many(R"({"properties":{)", [](int i) { return format(R"("p{}":{{}})", i); }, 5000, "}}"), "members"},
      {R"({"a":1,"a":2})", "twice"},
      {std::string(300 << 10, ' ') + "{}", "size in bytes"},
      {"false", "can never finish"},
  };
  const Vocabulary vocabulary = byte_vocabulary();
  for (const auto& [schema, expected] : cases) {
    try {
      GrammarProgram::from_json_schema(schema, vocabulary);
      ADD_FAILURE() << schema.substr(0, 100) << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos)
          << schema.substr(0, 100) << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace cheetah
