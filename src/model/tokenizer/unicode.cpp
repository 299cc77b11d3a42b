// SPDX-License-Identifier: MIT
#include "model/tokenizer/unicode.h"

#include <utf8proc.h>

#include <vector>

namespace cheetah {
namespace {

constexpr char32_t kCodePoints = 0x110000;

bool has_white_space_property(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

uint8_t classify(char32_t c) {
  uint8_t bits = has_white_space_property(c) ? kSpace : 0;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return bits | kLetter;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return bits | kNumber;
    case UTF8PROC_CATEGORY_MN:
      return bits | kMark | kNonspacing;
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return bits | kMark;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return bits | kPunctuation;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return bits | kOther;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
      return bits | (c < 0x80 ? kPunctuation : 0);  // $ + < = > ^ ` | ~
    default:
      return bits;
  }
}

std::vector<uint8_t> make_classes() {
  std::vector<uint8_t> table(kCodePoints);
  for (char32_t c = 0; c < kCodePoints; ++c) table[c] = classify(c);
  return table;
}

}  // namespace

const uint8_t* char_classes() {
  static const std::vector<uint8_t> table = make_classes();
  return table.data();
}

void append_lower(std::string& out, char32_t c) {
  if (c == 0x130) {
    out += "i\xCC\x87";  // the only character whose lower case is longer than one
    return;
  }
  append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

}  // namespace cheetah
