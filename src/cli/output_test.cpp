// SPDX-License-Identifier: MIT
#include "cli/output.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

TEST(TerminalText, LosesEscapeSequencesAndControls) {
  EXPECT_EQ(without_controls("a\033[31mred\007\b\r\x7f!"), "a[31mred!");
  EXPECT_EQ(without_controls("\xC2\x9B"
                             "31m"),
      "31m");  // CSI as one C1 character
}

TEST(TerminalText, KeepsNewlinesTabsAndEveryOtherCharacter) {
  const std::string text = "a\tb\nc é ß 日本 🙂 \xC2\xA0";
  EXPECT_EQ(without_controls(text), text);
}

TEST(TerminalText, ToleratesATruncatedLeadByte) { EXPECT_EQ(without_controls("a\xC2"), "a\xC2"); }

}  // namespace
}  // namespace cheetah
