// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace cheetah {

// Where in a UTF-8 character a byte sequence ends: the continuation bytes still to come and the range of
// the next one (narrower after E0, ED, F0 and F4, which keeps out overlong forms and surrogates).
class Utf8Position {
 public:
  bool at_boundary() const { return remaining_ == 0; }
  bool invalid() const { return remaining_ < 0; }

  Utf8Position after(uint8_t byte) const {
    if (remaining_ > 0) {
      if (byte < low_ || byte > high_) return Utf8Position(-1, 0, 0);
      return Utf8Position(static_cast<int8_t>(remaining_ - 1), 0x80, 0xBF);
    }
    if (remaining_ < 0) return *this;
    if (byte < 0x80) return *this;
    if (byte >= 0xC2 && byte <= 0xDF) return Utf8Position(1, 0x80, 0xBF);
    if (byte >= 0xE0 && byte <= 0xEF)
      return Utf8Position(2, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF);
    if (byte >= 0xF0 && byte <= 0xF4)
      return Utf8Position(3, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF);
    return Utf8Position(-1, 0, 0);
  }

  Utf8Position() = default;

 private:
  Utf8Position(int8_t remaining, uint8_t low, uint8_t high) : remaining_(remaining), low_(low), high_(high) {}
  int8_t remaining_ = 0;
  uint8_t low_ = 0x80;
  uint8_t high_ = 0xBF;
};

void append_utf8(std::string& out, uint32_t codepoint);

// Reads the character at text[at] and moves past it. Throws Error naming `what` and the byte if it is not
// valid UTF-8.
uint32_t read_utf8(std::string_view text, size_t& at, std::string_view what);

}  // namespace cheetah
