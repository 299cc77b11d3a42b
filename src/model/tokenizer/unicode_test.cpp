// SPDX-License-Identifier: MIT
#include "model/tokenizer/unicode.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace cheetah {
namespace {

TEST(Utf8, EachMaximalBrokenPartBecomesOneReplacementCharacter) {
  const std::string r(kReplacementUtf8);
  EXPECT_EQ(repair_utf8("plain"), "plain");
  EXPECT_EQ(repair_utf8("a\xFF"
                        "b"),
      "a" + r + "b");
  EXPECT_EQ(repair_utf8("\x80\x80"), r + r);  // lone continuation bytes
  EXPECT_EQ(repair_utf8("\xC0\xAF"), r + r);  // overlong
  EXPECT_EQ(repair_utf8("\xE2\x82"), r);      // cut short: one part
  EXPECT_EQ(repair_utf8("\xE2\x82x"), r + "x");
  EXPECT_EQ(repair_utf8("\xED\xA0\x80"), r + r + r);          // a surrogate
  EXPECT_EQ(repair_utf8("\xF4\x90\x80\x80"), r + r + r + r);  // beyond U+10FFFF
  EXPECT_EQ(repair_utf8("\xF0\x9F\x98"), r);
  EXPECT_EQ(repair_utf8(std::string_view("\0", 1)), std::string_view("\0", 1));
}

TEST(Utf8, RepairGivesValidTextAndKeepsValidText) {
  EXPECT_TRUE(rc::check("repair", [](const std::string& bytes) {
    const std::string repaired = repair_utf8(bytes);
    RC_ASSERT(is_valid_utf8(repaired));
    RC_ASSERT(is_valid_utf8(bytes) == (repaired == bytes));
    RC_ASSERT(to_utf8(to_utf32(repaired)) == repaired);
  }));
}

TEST(CharClass, KnowsLettersNumbersSpacesAndPunctuation) {
  EXPECT_EQ(char_class(U'a'), kLetter);
  EXPECT_EQ(char_class(U'語'), kLetter);
  EXPECT_EQ(char_class(U'7'), kNumber);
  EXPECT_EQ(char_class(U'½'), kNumber);
  EXPECT_EQ(char_class(U'$'), kPunctuation);
  EXPECT_EQ(char_class(U'。'), kPunctuation);
  EXPECT_EQ(char_class(U' '), kSpace);
  EXPECT_EQ(char_class(U'€'), 0);
  EXPECT_EQ(char_class(0x0301), kMark | kNonspacing);
  for (const char32_t space : {0x09, 0x0D, 0x20, 0x85, 0xA0, 0x1680, 0x2028, 0x3000})
    EXPECT_TRUE(is_space(space));
  for (const char32_t other : {0x180E, 0x200B, 0xFEFF, 0x1C})
    EXPECT_FALSE(is_space(other)) << uint32_t{other};
}

TEST(LowerCase, LooksAtOneCharacterAtATime) {
  std::string out;
  for (const char32_t c : U"AÉΣİ") append_lower(out, c);
  EXPECT_EQ(out.substr(0, out.size() - 1), "aéσi\u0307");  // the literal ends with a zero
}

}  // namespace
}  // namespace cheetah
