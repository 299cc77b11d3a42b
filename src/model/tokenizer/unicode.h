// SPDX-License-Identifier: MIT
#pragma once
// The few Unicode properties tokenizers ask for.
#include <cstdint>
#include <string>

#include "base/utf8.h"

namespace cheetah {

// Bit set of what a character is, from one table look-up.
enum CharClass : uint8_t {
  kLetter = 1,       // L*
  kNumber = 2,       // N*
  kSpace = 4,        // White_Space
  kPunctuation = 8,  // P* and the ASCII symbols
  kMark = 16,        // M*
  kNonspacing = 32,  // Mn
  kOther = 64,       // Cc, Cf, Cs, Co
};
// Indexed by code point, 0x110000 entries.
const uint8_t* char_classes();
inline uint8_t char_class(char32_t c) { return char_classes()[c]; }
inline bool is_space(char32_t c) { return (char_class(c) & kSpace) != 0; }

// Lower case of one character without looking at its neighbours (two characters for U+0130).
void append_lower(std::string& out, char32_t c);

}  // namespace cheetah
