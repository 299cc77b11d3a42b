// SPDX-License-Identifier: MIT
#include "base/table.h"

#include <gtest/gtest.h>

#include "base/terminal.h"
#include "base/text.h"

namespace cheetah {
namespace {

TEST(Table, AlignsTheFirstColumnLeftAndTheOthersRight) {
  Table table({"case", "Δlogit"});
  table.add({"a", "1.5"});
  table.add({"longer", "12.25"});
  EXPECT_EQ(table.render(),
      "case    Δlogit\n"
      "------  ------\n"
      "a          1.5\n"
      "longer   12.25\n");
}

TEST(Table, BreaksHeadersAndSentencesWhereTheTerminalEnds) {
  Table table({"worker", "prefill tokens", "the first said"});
  table.add({"prefill-0", "12", "no answer came in time from it"});
  const std::string text = table.render(34);
  for (const std::string_view line : split(text, '\n')) EXPECT_LE(columns_of(line), 34) << line;
  for (const char* part : {"prefill-0", " tokens", "the first\n", "no answer\n", "came in\n"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  EXPECT_EQ(text.find("…"), std::string::npos) << text;
}

TEST(Table, CutsWhatHasNoWords) {
  Table table({"file", "hash"});
  table.add({"a", "0123456789abcdef0123456789abcdef"});
  const std::string text = table.render(20);
  for (const std::string_view line : split(text, '\n')) EXPECT_LE(columns_of(line), 20) << line;
  EXPECT_NE(text.find("…"), std::string::npos);
  EXPECT_EQ(table.render(0).find("…"), std::string::npos);
}

TEST(Terminal, CountsColumnsNotBytes) {
  EXPECT_EQ(columns_of("Δ█é"), 3);
  EXPECT_EQ(columns_of("漢字"), 4);
  EXPECT_EQ(columns_of("e\xCC\x81"), 1);
  EXPECT_EQ(columns_of("\033[1mbold\033[0m"), 4);
  EXPECT_EQ(columns_of("\xFF\xC3"), 2);
  EXPECT_EQ(shortened("abcdef", 4), "abc…");
  EXPECT_EQ(shortened("abcd", 4), "abcd");
}

TEST(Terminal, WrapsBetweenWordsAndKeepsIndents) {
  EXPECT_EQ(wrapped("one two three", 9, 2), "one two\n  three");
  EXPECT_EQ(fitted("short\n  a line that is long", 14), "short\n  a line\n    that is\n    long");
  EXPECT_EQ(fitted("as it is", 0), "as it is");
  EXPECT_EQ(wrapped("a http://host/path b", 8, 2), "a\n  http:/\n  /host/\n  path b");
}

TEST(Table, WritesSizesForPeople) {
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes(12), "12 B");
  EXPECT_EQ(human_count(8030261248.0), "8.03 B");
}

}  // namespace
}  // namespace cheetah
