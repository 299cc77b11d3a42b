// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <regex>

#include "base/error.h"
#include "engine/grammar/grammar_fixture.h"

namespace cheetah {
namespace {

// Every string over `alphabet` of at most `length` characters.
std::vector<std::string> all_strings(std::string_view alphabet, size_t length) {
  std::vector<std::string> all = {""};
  for (size_t i = 0, level = 0; level < length; ++level)
    for (const size_t end = all.size(); i < end; ++i)
      for (const char c : alphabet) all.push_back(all[i] + c);
  return all;
}

std::string random_regex(Philox& random, int depth) {
  const uint32_t kind = random.next_u32() % (depth <= 0 ? 4 : 10);
  const auto inner = [&] { return random_regex(random, depth - 1); };
  switch (kind) {
    case 0:
      return "a";
    case 1:
      return "b";
    case 2:
      return "[ab]";
    case 3:
      return "[^a]";
    case 4:
      return "(?:" + inner() + ")*";
    case 5:
      return "(?:" + inner() + ")?";
    case 6:
      return "(?:" + inner() + "){1,2}";
    case 7:
      return "(?:" + inner() + "|" + inner() + ")";
    case 8:
      return "(?:" + inner() + ")+";
    default:
      return inner() + inner();
  }
}

TEST(GrammarRegex, RandomRegexesAcceptExactlyWhatTheStandardLibraryMatches) {
  const Vocabulary vocabulary = byte_vocabulary();
  const std::vector<std::string> texts = all_strings("abc", 5);
  Philox random(7);
  for (int i = 0; i < 150; ++i) {
    const std::string pattern = random_regex(random, 3);
    const std::regex reference(pattern);
    const GrammarState state(GrammarProgram::from_regex(pattern, vocabulary));
    for (const std::string& text : texts)
      ASSERT_EQ(matches(state, text), std::regex_match(text, reference)) << pattern << " on " << text;
  }
}

TEST(GrammarRegex, EveryAcceptedPrefixCanBeContinuedToAMatch) {
  const Vocabulary vocabulary = byte_vocabulary();
  const std::vector<std::string> texts = all_strings("ab", 8);
  for (const char* pattern : {"(?:ab){2,3}", "a(?:b|ab){0,2}b", "[ab]{3}a", "(?:a|b)*abb"}) {
    const GrammarState state(GrammarProgram::from_regex(pattern, vocabulary));
    for (const std::string& prefix : texts) {
      if (prefix.size() > 4) break;
      const bool continues = std::any_of(texts.begin(), texts.end(),
          [&](const std::string& text) { return text.rfind(prefix, 0) == 0 && matches(state, text); });
      EXPECT_EQ(is_prefix(state, prefix), continues) << pattern << " on " << prefix;
    }
  }
}

struct Case {
  const char* pattern;
  std::vector<std::string> yes, no;
};

TEST(GrammarRegex, UnderstandsTheCommonNotation) {
  const std::vector<Case> cases = {
      {R"(\d{3}-\d{4})", {"555-0199"}, {"5550199", "555-019"}},
      {R"(^(?:yes|no)$)", {"yes", "no"}, {"maybe", "yesno"}},
      {R"([a-zA-Z_]\w*)", {"_x9", "Q"}, {"9x", ""}},
      {R"(\x41\u0042\u{43})", {"ABC"}, {"abc"}},
      {R"([\]\-x])", {"]", "-", "x"}, {"\\"}},
      {R"([]a])", {"]", "a"}, {"b"}},
      {R"([a-])", {"a", "-"}, {"b"}},
      {R"(a.c)",
          {"abc",
              "a\xC3\xA9"
              "c",
              "a\xF0\x9F\x98\x80"
              "c"},
          {"a\nc",
              "a\xC3"
              "c",
              "ac"}},
      {R"([^\x00-\x7F]+)", {"\xC3\xA9\xE2\x82\xAC"}, {"e", "\xED\xA0\x80", "\xC0\x80"}},
      {R"(\p{Lu}\p{Ll}+)", {"Az", "\xC3\x89t\xC3\xA9"}, {"az", "A1"}},
      {R"(\P{L})", {"1", "-"}, {"a"}},
      {R"(a{2}b{0,1}c{1,})", {"aac", "aabccc"}, {"ac", "aab"}},
      {R"((?P<year>\d\d)(?<m>x)?)", {"99", "12x"}, {"9"}},
      {R"(a*?b+?)", {"b", "aab"}, {"a"}},
      {R"(\s\S)", {" x", "\tx"}, {"xx", "  "}},
      {R"(a|^b$|c)", {"a", "b", "c"}, {"d"}},
      {R"()", {""}, {"a"}},
      {"\xE2\x82\xAC+", {"\xE2\x82\xAC\xE2\x82\xAC"}, {"\xE2\x82"}},
  };
  const Vocabulary vocabulary = byte_vocabulary();
  for (const Case& c : cases) {
    const GrammarState state(GrammarProgram::from_regex(c.pattern, vocabulary));
    for (const std::string& text : c.yes) EXPECT_TRUE(matches(state, text)) << c.pattern << " on " << text;
    for (const std::string& text : c.no) EXPECT_FALSE(matches(state, text)) << c.pattern << " on " << text;
  }
}

TEST(GrammarRegex, WhatIsNotSupportedIsNamed) {
  const Vocabulary vocabulary = byte_vocabulary();
  const std::vector<std::pair<const char*, const char*>> cases = {{R"((a)\1)", "back-reference"},
      {"(?=x)x", "look-around"}, {"(?<!x)y", "look-around"}, {R"(\bword)", "word boundary"},
      {"(?:", "\"(\" without"}, {"(a", "\"(\" without"}, {"a)", "\")\" without"}, {"[", "\"[\" without"},
      {"[a", "\"[\" without"}, {"*a", "nothing to repeat"}, {"a**", "after a quantifier"},
      {"a*+", "possessive"}, {"a{2,1}", "wrong order"}, {"[z-a]", "wrong order"}, {"a{1", "\"}\""},
      {"a{x}", "expected a count"}, {R"(\x1)", "hexadecimal"}, {R"(\u{110000})", "not a Unicode"},
      {R"(\p{Greek})", "Unicode class"}, {"a\\", "backslash at the end"}, {R"(\q)", "the escape"},
      {"a^b", "anchor"}, {"a$b", "anchor"}, {"(^a)", "anchor"}, {"(?>a)", "atomic"},
      {"(?i)a", "this kind of group"}, {"[[:alpha:]]", "POSIX"}, {"a{1000000}", "repetition"},
      {"\xFF", "UTF-8"}};
  for (const auto& [pattern, expected] : cases) {
    try {
      GrammarProgram::from_regex(pattern, vocabulary);
      ADD_FAILURE() << pattern << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos)
          << pattern << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace cheetah
