// SPDX-License-Identifier: MIT
// Inputs made to hurt: each must be answered, yes or no, within the limits, and what is accepted must give
// masks.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/grammar_fixture.h"

namespace cheetah {
namespace {

enum class Language { kRegex, kEbnf, kSchema };

std::string repeated(std::string_view part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

std::string nested(std::string_view open, int depth, std::string_view core, std::string_view close) {
  return repeated(open, depth) + std::string(core) + repeated(close, depth);
}

std::vector<std::string> nasty_regexes() {
  std::vector<std::string> all = {"(a+)+$", "(a?){2000}a{2000}", "(a?){1,2000}", "(.*){32}x", "(.*)*x",
      "((a*)*)*b", "(a|a)*b", "(a|aa)+$", "(a*)*(b*)*(c*)*", "(x+x+)+y", "([a-z]+)*1", "(a{0,100}){0,100}",
      "((a{0,100}){0,100}){0,100}", "((a{1000}){1000}){1000}", "(.{0,2000}){0,2000}", "(?:a|b|ab)*c",
      "[^x]*[^y]*[^z]*x", "(\\w*\\s*)*!", "(a{1,2000}b{1,2000}){1,2000}", ".*.*.*.*.*.*.*.*.*.*x",
      "(?:.|\\n)*?end", "\\p{L}{2000}", "(\\p{L}\\p{N}){500}", "[\\p{L}\\P{L}]{100}", "(?:(?:a?b?)?c?)*",
      "()", "()*", "(()*)*", "(|a)*", "(a||b){5}", "^^a", "a$$", "^$", "[^\\x00-\\x{10FFFF}]",
      "a[^\\x00-\\x{10FFFF}]|b", "\\x{10FFFF}{100}", "(a|b){20}(a|b){20}(a|b){20}c", "(?:a|b)*a(?:a|b){200}",
      "(?:a|b)*a(?:a|b){1500}", "x{2000}", "x{2001}", "x{199999}", "(a?){3000}",
      "(a{1,100000}b{1,100000}){1,100000}", "(?:a|b)*a(?:a|b){100000}", "(.{0,100000}x){0,100000}", "x{0,0}",
      "x{0}", "{", "}", "a{,5}", "a{-1}", "a{99999999999999999999}", "[]", "[^]", "[]]", "[-]", "[a-a]",
      "[\\d-z]", "\\", "\\u", "\\u{}", "\\u{FFFFFFF}", "\\p", "\\p{", "\\pL", "(?", "(?P", "(?P<", "(?P<n",
      "(?#x)", "a\0b", "\xC3", "\xED\xA0\x80"};
  all.push_back(nested("(", 64, "a", ")"));
  all.push_back(nested("(", 65, "a", ")"));
  all.push_back(nested("(", 1800, "a", ")"));
  all.push_back(nested("(?:", 60, "a", ")*"));
  all.push_back(nested("(?:", 60, "a", "){0,2}"));
  all.push_back(nested("(?:", 60, "a|b", "){1,2000}"));
  all.push_back(repeated("(a|b)?", 600));
  all.push_back(repeated("a|", 2000));
  all.push_back(repeated(".*a", 500));
  all.push_back(repeated("[a-z]{0,50}", 300));
  all.push_back(std::string(4096, 'a'));
  all.push_back(std::string(5 << 10, 'a'));
  return all;
}

std::vector<std::string> nasty_grammars() {
  std::vector<std::string> all = {"root ::= \"a\" root root | \"a\"", "root ::= (root)?", "root ::= root",
      "root ::= a\na ::= b\nb ::= a", "root ::= \"\"", "root ::= (\"\")*", "root ::= ((\"a\"?)*)*",
      "root ::= x{2000}\nx ::= y{2000}\ny ::= \"a\"{2000}",
      "root ::= x x x x\nx ::= \"a\" x | x2\nx2 ::= \"a\" x2 | \"\"",
      "root ::= e\ne ::= t (\"+\" t)*\nt ::= \"(\" e \")\" | [0-9]+",
      "root ::= a | b\na ::= \"(\" root \")\" a | \"\"\nb ::= \"(\" root \")\" b | \"\"",
      "root ::= .{0,2000}{0,5}", "root ::= [^\\x00-\\U0010FFFF]",
      "root ::= \"a\" | [^\\x00-\\U0010FFFF] \"x\"", "root ::=", "::=", "root ::= ::=", "root ::= \"a\" #",
      "#", "root", "root ::= root2\nroot2 ::= root? \"x\"", "root ::= \"\\xFF\"",
      "root ::= s s s s s s\ns ::= \"a\" s \"b\" | \"a\" s \"c\" | \"\""};
  all.push_back("root ::= " + nested("(", 64, "\"a\"", ")"));
  all.push_back("root ::= " + nested("(", 60000, "\"a\"", ")"));
  all.push_back("root ::= " + nested("(", 60, "\"a\"", ")*"));
  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 5000; ++i) chain += format("r{} ::= \"a\" r{} | \"b\"\n", i, i + 1);
  all.push_back(chain + "r5000 ::= \"end\"\n");
  std::string doubling = "root ::= d0\n";
  for (int i = 0; i < 60; ++i) doubling += format("d{} ::= d{} d{}\n", i, i + 1, i + 1);
  all.push_back(doubling + "d60 ::= \"a\"?\n");
  all.push_back("root ::= " + repeated("\"a\" | ", 30000) + "\"b\"");
  return all;
}

std::vector<std::string> nasty_schemas() {
  std::vector<std::string> all = {R"({"$ref":"#/$ref"})", R"({"$ref":"#//"})", R"({"$ref":"#/a/0"})",
      R"({"$ref":5})", R"({"$ref":""})", R"({"$id":"x","$ref":"x#/a"})",
      R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", R"({"type":"array","items":{"$ref":"#"}})",
      R"({"items":{"$ref":"#"},"minItems":2})", R"({"type":"string","maxLength":2000})",
      R"({"type":"string","minLength":2000,"maxLength":2000})", R"({"type":"string","maxLength":2001})",
      R"({"type":"string","minLength":100000,"maxLength":100000})",
      R"({"type":"array","items":{"type":"array","maxItems":100000},"minItems":100000})",
      R"({"type":"string","pattern":"^[a-z]+$","maxLength":100000})",
      R"({"type":"object","maxProperties":2001})",
      R"({"type":"array","items":{"type":"array","items":{"type":"array","maxItems":2000},"maxItems":2000},"maxItems":2000})",
      R"({"type":"array","items":{"type":"string","maxLength":2000},"minItems":2000,"maxItems":2000})",
      R"({"type":"string","pattern":"(a?){2000}a{2000}"})", R"({"type":"string","pattern":".*.*.*.*x"})",
      R"({"type":"number","minimum":1e300})", R"({"type":"number","minimum":-1e-300})",
      R"({"type":"integer","minimum":1e30,"maximum":1e31})",
      R"({"type":"integer","minimum":9223372036854775807})",
      R"({"type":"integer","maximum":-9223372036854775808})",
      R"({"type":"integer","minimum":18446744073709551615})",
      R"({"type":"integer","minimum":0.1,"maximum":0.9})", R"({"type":"integer","multipleOf":1e-9})",
      R"({"type":"integer","multipleOf":1000,"minimum":0,"maximum":1e15})",
      R"({"type":"integer","multipleOf":-3})", R"({"type":"number","multipleOf":1e300})",
      R"({"multipleOf":"x"})", R"({"properties":{"":{}},"required":["",""]})",
      R"({"properties":{"\u0000":{"const":"\u0000"}}})", R"({"required":[1]})", R"({"properties":null})",
      R"({"items":5})", R"({"prefixItems":{}})", R"({"prefixItems":[]})", R"({"enum":[[[[[[]]]]]]})",
      R"({"enum":[1.0,1,1e0]})", R"({"const":null})", R"({"minimum":null})", R"({"maxItems":1.5})",
      R"({"maxItems":1e400})", R"({"type":"object","maxProperties":0})",
      R"({"type":"object","minProperties":1,"maxProperties":2000,"additionalProperties":true})",
      R"({"allOf":[{"allOf":[{"allOf":[{"type":"null"}]}]}]})", R"({"allOf":[]})", R"({"allOf":[false]})",
      R"({"oneOf":[true,true]})",
      R"({"additionalProperties":{"additionalProperties":{"additionalProperties":{}}}})",
      R"({"patternProperties":{"(":{}}})", R"({"patternProperties":{".*":{"$ref":"#"}}})",
      R"({"format":"date","pattern":"x"})", R"({"format":7})", "null", "\"x\"", "",
      R"({"type":"string","description":"\ud800"})", "{\"type\":\"string\",\"title\":\"\xFF\"}"};
  std::string doubling = R"({"$defs":{)";
  for (int i = 0; i < 60; ++i)
    doubling += format(
        R"("d{}":{{"type":"array","prefixItems":[{{"$ref":"#/$defs/d{}"}},{{"$ref":"#/$defs/d{}"}}],"minItems":2}},)",
        i, i + 1, i + 1);
  all.push_back(doubling + R"("d60":{"const":1}},"$ref":"#/$defs/d0"})");
  std::string product = R"({"allOf":[)";
  for (int i = 0; i < 8; ++i)
    product += format(
        R"({}{{"anyOf":[{{"minimum":{}}},{{"maximum":{}}},{{"type":"string"}}]}})", i ? "," : "", i, -i);
  all.push_back(product + "]}");
  std::string wide = R"({"type":"object","properties":{)";
  for (int i = 0; i < 3000; ++i)
    wide += format(R"({}"property_number_{}":{{"type":"integer"}})", i ? "," : "", i);
  all.push_back(wide + "}}");
  all.push_back(wide + R"(},"additionalProperties":{"type":"null"}})");
  all.push_back(wide + R"(},"minProperties":5,"maxProperties":1000})");
  std::string words = R"({"enum":[)";
  for (int i = 0; i < 9999; ++i) words += format(R"({}"value {}")", i ? "," : "", i * 7919 % 100003);
  all.push_back(words + "]}");
  return all;
}

void survives(Language language, const std::string& text, const Vocabulary& vocabulary) {
  const auto start = std::chrono::steady_clock::now();
  try {
    const auto program = language == Language::kRegex  ? GrammarProgram::from_regex(text, vocabulary)
                         : language == Language::kEbnf ? GrammarProgram::from_ebnf(text, vocabulary)
                                                       : GrammarProgram::from_json_schema(text, vocabulary);
    // A walk may end in a dead end, but never outside of the grammar and never without an answer.
    random_walk(GrammarState(program), *vocabulary, 1, -2980);
  } catch (const Error& error) {
    EXPECT_STRNE(error.what(), "");
    EXPECT_LT(std::string_view(error.what()).size(), 1000u) << text.substr(0, 80);
  }
  // Far beyond the limits on any machine: this catches what does not end, not what is slow.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30)) << text.substr(0, 80);
}

TEST(GrammarNasty, EveryInputOfTheCorpusIsAnswered) {
  const Vocabulary vocabulary = byte_vocabulary({"aa", "aaaa", "ab", "\",\"", "\":", "{\"", "]]", "}}"});
  const std::vector<std::pair<Language, std::vector<std::string>>> corpus = {
      {Language::kRegex, nasty_regexes()}, {Language::kEbnf, nasty_grammars()},
      {Language::kSchema, nasty_schemas()}};
  size_t count = 0;
  for (const auto& [language, texts] : corpus)
    for (const std::string& text : texts) {
      survives(language, text, vocabulary);
      ++count;
    }
  EXPECT_GE(count, 150u);
}

TEST(GrammarNasty, LimitsAreNamed) {
  const Vocabulary vocabulary = byte_vocabulary();
  const auto message = [&](const std::string& regex, const GrammarLimits& limits) -> std::string {
    try {
      GrammarProgram::from_regex(regex, vocabulary, limits);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  GrammarLimits limits;
  limits.max_states = 100;
  EXPECT_NE(message("[a-z]{200}", limits).find("grammar_too_complex: states"), std::string::npos);
  limits = {};
  limits.max_steps = 100;
  EXPECT_NE(message("[a-z]{200}", limits).find("grammar_too_complex: compile steps"), std::string::npos);
  limits = {};
  limits.max_bytes = 1000;
  EXPECT_NE(message("[a-z]{200}", limits).find("grammar_too_complex: memory"), std::string::npos);
  limits = {};
  limits.max_time = std::chrono::milliseconds(-1);
  EXPECT_NE(message("[a-z]{200}", limits).find("grammar_too_complex: compile time"), std::string::npos);
  limits = {};
  EXPECT_NE(message("a{200001}", limits).find("grammar_too_complex: repetition"), std::string::npos);
  EXPECT_NE(
      message(nested("(", 65, "a", ")"), limits).find("grammar_too_complex: nesting"), std::string::npos);
}

}  // namespace
}  // namespace cheetah
