// SPDX-License-Identifier: MIT
#include "model/tokenizer/regex.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/error.h"
#include "model/tokenizer/splitter.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {
namespace {

std::vector<std::string> matches(std::string_view pattern, std::string_view text) {
  const Regex regex(pattern, "test");
  std::vector<std::string> found;
  for_each_match(regex, text, [&](int64_t begin, int64_t end) {
    found.emplace_back(text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  });
  return found;
}

using Strings = std::vector<std::string>;

TEST(RegexDialect, WhiteSpaceIsTheUnicodeProperty) {
  EXPECT_EQ(matches("\\s+", "a\u0085b\u00A0c\u180Ed\u3000"), (Strings{"\u0085", "\u00A0", "\u3000"}));
  EXPECT_EQ(matches("[\\s]+", "a\u180E\u2028"), (Strings{"\u2028"}));
  EXPECT_EQ(matches("[\\S]+", "ab c\u180E"), (Strings{"ab", "c\u180E"}));
}

TEST(RegexDialect, PlusBehindAnIntervalRepeatsItInsteadOfBeingPossessive) {
  EXPECT_EQ(matches("\\p{N}{1,3}+", "12345"), (Strings{"12345"}));
  EXPECT_EQ(matches("(?:a|b){2}+", "ababa"), (Strings{"abab"}));
  EXPECT_EQ(matches("\\p{N}{1,3}", "12345"), (Strings{"123", "45"}));
}

TEST(RegexDialect, UnderstandsPossessiveMarksLookaheadHexDigitsAndLongNames) {
  EXPECT_EQ(matches("[^\\r\\n\\p{L}]?+\\p{L}++", " ab!c"), (Strings{" ab", "!c"}));
  EXPECT_EQ(matches("\\s+(?!\\S)", "a   b"), (Strings{"  "}));
  EXPECT_EQ(matches("\\h+", "xyzBEEF09"), (Strings{"BEEF09"}));
  EXPECT_EQ(matches("\\p{Letter}+|\\p{Decimal_Number}", "ab12"), (Strings{"ab", "1", "2"}));
  EXPECT_EQ(matches("[\\u4e00-\\u9fff]+", "a漢字b"), (Strings{"漢字"}));
  EXPECT_EQ(matches("(?i:'s)", "'S 's 'ſ"), (Strings{"'S", "'s", "'ſ"}));
  EXPECT_EQ(matches("(?m:.)", "\n"), (Strings{"\n"}));  // m is "dot matches newline" in Ruby
}

TEST(RegexDialect, SetsHaveOnigurumasMembers) {
  EXPECT_EQ(matches("[\\p{Lo}\\p{Ll}&&[^\\p{Han}]]+", "a漢b한"), (Strings{"a", "b한"}));
  EXPECT_EQ(matches("\\p{Han}+", "体。今"), (Strings{"体", "今"}));  // the script, not its extensions
  EXPECT_EQ(matches("[[:punct:]]+", "a$€.b"), (Strings{"$€."}));
  EXPECT_EQ(matches("\\p{Punct}+", "a$.b"), (Strings{"."}));
  EXPECT_EQ(matches("\\w+", "a²\u0301½ ½"), (Strings{"a²\u0301½", "½"}));
  EXPECT_EQ(matches("\\b\\w", "na\u0301o x"), (Strings{"n", "x"}));
}

TEST(RegexDialect, NamesWhatItDoesNotUnderstand) {
  for (const char* pattern :
      {"[a&&b]", "[^a&&[b]]", "[a[bc]]", "[\\W]", "(", "\\p{Nonsense}", "a{9999999}"}) {
    try {
      const Regex regex(pattern, "file.json");
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with("file.json: ")) << error.what();
    }
  }
}

TEST(Regex, CatastrophicBacktrackingEndsWithAnError) {
  const std::string text(5000, 'a');
  EXPECT_THROW(matches("(a+)+\\d", text), Error);
  EXPECT_THROW(matches("^(?:a|aa)+[b-z]", text), Error);
}

TEST(Regex, EmptyMatchesDoNotStandStill) {
  EXPECT_EQ(matches("x*", "axb"), (Strings{"", "x", ""}));
  EXPECT_EQ(matches("(?=\\d)", "é12").size(), 2U);
}

// Text that makes the patterns disagree if anything can.
rc::Gen<std::string> tricky_text() {
  const auto part = rc::gen::elementOf(std::vector<std::string>{" ", "  ", "\n", "\r\n", "\t", "\u3000",
      "\u0085", "'", "'s", "'S", "'ll", "'Re", "'ſ", "a", "Bc", "é", "語", "1", "234", "½", "٣", "!", "...",
      "-", "€", "\u0301", "👍", "\u200D", "_", "x\n", "\u00A0", std::string(1, '\0')});
  return rc::gen::map(
      rc::gen::container<std::vector<std::string>>(part), [](const std::vector<std::string>& parts) {
        std::string text;
        for (const std::string& item : parts) text += item;
        return text;
      });
}

TEST(Scanners, CutExactlyWhereTheirPatternsCut) {
  for (const std::string_view pattern : scanned_patterns()) {
    const auto scanner = make_scanner(pattern);
    ASSERT_TRUE(scanner);
    EXPECT_TRUE(rc::check(std::string(pattern), [&] {
      const std::string text = *tricky_text();
      if (text.empty()) return;
      std::vector<Span> spans;
      scanner->find(text, spans);
      Strings found;
      for (const Span& span : spans)
        found.push_back(
            text.substr(static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin)));
      RC_ASSERT(found == matches(pattern, text));
    }));
  }
}

TEST(WordCharacters, AreLettersMarksDigitsConnectorsAndJoiners) {
  for (const char32_t c : {U'a', U'語', U'_', U'9', char32_t{0x301}, char32_t{0x200D}})
    EXPECT_TRUE(is_word_char(c));
  for (const char32_t c : {U' ', U'-', U'½', U'。'}) EXPECT_FALSE(is_word_char(c));
}

}  // namespace
}  // namespace cheetah
