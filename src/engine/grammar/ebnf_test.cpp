// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <functional>

#include "base/error.h"
#include "engine/grammar/grammar_fixture.h"

namespace cheetah {
namespace {

// Every string over `alphabet` up to `length` is accepted exactly when `expected` says so.
void expect_language(const char* grammar, std::string_view alphabet, size_t length,
    const std::function<bool(const std::string&)>& expected) {
  const GrammarState state(GrammarProgram::from_ebnf(grammar, byte_vocabulary()));
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string text = texts[i];
    ASSERT_EQ(matches(state, text), expected(text)) << grammar << " on " << text;
    if (text.size() < length)
      for (const char c : alphabet) texts.push_back(text + c);
  }
}

bool balanced(const std::string& text) {
  int depth = 0;
  for (const char c : text)
    if ((depth += c == '(' ? 1 : -1) < 0) return false;
  return depth == 0;
}

TEST(GrammarEbnf, RecursiveRulesAcceptTheirLanguage) {
  expect_language("root ::= (\"(\" root \")\")*", "()", 10, balanced);
  expect_language("root ::= \"(\" root \")\" root | \"\"", "()", 10, balanced);
  expect_language("root ::= \"a\" root \"b\" | \"ab\"", "ab", 10, [](const std::string& text) {
    const size_t half = text.size() / 2;
    return !text.empty() && text == std::string(half, 'a') + std::string(half, 'b');
  });
  expect_language(
      "root ::= [ab] | \"a\" root \"a\" | \"b\" root \"b\"", "ab", 9, [](const std::string& text) {
        return text.size() % 2 == 1 && std::equal(text.begin(), text.end(), text.rbegin());
      });
}

TEST(GrammarEbnf, AmbiguityCostsNoExponentialWork) {
  // Two ways to read each letter: plain stacks would double at every one.
  const GrammarState start(GrammarProgram::from_ebnf(
      "root ::= x \"b\" | y \"c\" | \"z\"\nx ::= \"a\" root\ny ::= \"a\" root\n", byte_vocabulary()));
  GrammarState state = start;
  ASSERT_TRUE(state.accept_bytes(std::string(300, 'a') + "z"));
  std::string tail;
  for (int i = 0; i < 300; ++i) tail += i % 3 == 0 ? 'b' : 'c';
  ASSERT_TRUE(state.accept_bytes(tail));
  EXPECT_TRUE(state.is_complete());
  expect_language("root ::= \"a\" root root | \"a\"", "a", 12,
      [](const std::string& text) { return text.size() % 2 == 1; });
}

TEST(GrammarEbnf, RulesThatMayBeEmptyArePassedOver) {
  expect_language("root ::= opt opt \"x\" opt\nopt ::= \"a\"? b\nb ::= \"b\" | \"\"", "abx", 6,
      [](const std::string& text) {
        const size_t at = text.find('x');
        if (at == std::string::npos || text.find('x', at + 1) != std::string::npos) return false;
        const auto fits = [](const std::string& part, int groups) {
          int used = 0;
          for (size_t i = 0; i < part.size(); ++used)
            i += part[i] == 'a' && i + 1 < part.size() && part[i + 1] == 'b' ? 2 : 1;
          return used <= groups;
        };
        return fits(text.substr(0, at), 2) && fits(text.substr(at + 1), 1);
      });
  expect_language("root ::= (\"a\"? \"b\"?){2,3}", "ab", 7, [](const std::string& text) {
    int groups = 0;
    for (size_t i = 0; i < text.size(); ++groups)
      i += text[i] == 'a' && i + 1 < text.size() && text[i + 1] == 'b' ? 2 : 1;
    return groups <= 3;
  });
}

TEST(GrammarEbnf, ReadsTheNotation) {
  const Vocabulary vocabulary = byte_vocabulary();
  const auto program = GrammarProgram::from_ebnf(R"(# a comment
root ::= greeting ", "  # another
         name
       | "\x21\u00e9\t\\\""
greeting ::= ("hi" | "ho"){1,2}
name ::= [A-Z] [^0-9\n]* .{2}
)",
      vocabulary);
  EXPECT_TRUE(matches(program, "hi, Bob"));
  EXPECT_TRUE(matches(program, "hiho, Eva99"));
  EXPECT_TRUE(matches(program, "!\xC3\xA9\t\\\""));
  EXPECT_FALSE(matches(program, "hi, bob"));
  EXPECT_FALSE(matches(program, "hihohi, Bob"));
}

TEST(GrammarEbnf, SaysWhatIsWrongAndWhere) {
  const Vocabulary vocabulary = byte_vocabulary();
  const std::vector<std::pair<std::string, const char*>> cases = {
      {"", "\"root\" is not defined"},
      {"start ::= \"a\"", "\"root\" is not defined"},
      {"root ::= \"a\"\n\nroot ::= x", "\"root\" is defined twice (line 3"},
      {"root ::= \"a\"\n b\n", "rule \"b\" is not defined (line 2)"},
      {"root ::= root \"a\" | \"b\"", "left recursion through root -> root"},
      {"root ::= a\na ::= b? c\nb ::= \"b\"\nc ::= a \"x\" | \"y\"", "left recursion through a -> c -> a"},
      {"root ::= \"a\" | x\nx ::= \"x\" x", "rule \"x\" can never finish"},
      {"root ::= \"a", "closing"},
      {"root ::= \"\\q\"", "unknown escape (line 1, column 11)"},
      {"root ::= \"\\x1\"", "2 hexadecimal digits"},
      {"root ::= \"\\UFFFFFFFF\"", "not a Unicode character"},
      {"root ::= [z-a]", "wrong order"},
      {"root ::= [abc", "\"[\" without"},
      {"root ::= (\"a\"", "\"(\" without"},
      {"root ::= \"a\")", "\")\" without"},
      {"root ::= \"a\"{5,2}", "wrong order"},
      {"root ::= \"a\"{1,1000000}", "repetition"},
      {"root ::= \"a\"**", "quantifier after"},
      {"root = \"a\"", "expected \"::=\""},
      {"root ::= @", "unexpected"},
      {"root ::= " + std::string(60000, '(') + "\"a\"" + std::string(60000, ')'), "nesting"},
      {"root ::= \"" + std::string(300 << 10, 'a') + "\"", "size in bytes"},
  };
  for (const auto& [grammar, expected] : cases) {
    try {
      GrammarProgram::from_ebnf(grammar, vocabulary);
      ADD_FAILURE() << grammar.substr(0, 60) << " was accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(expected), std::string::npos)
          << grammar.substr(0, 60) << ": " << error.what();
    }
  }
}

}  // namespace
}  // namespace cheetah
