// SPDX-License-Identifier: MIT
#pragma once
// UTF-8: characters to bytes and back, and the repair of invalid bytes.
#include <cstdint>
#include <string>
#include <string_view>

namespace cheetah {

inline constexpr char32_t kReplacement = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

// Length of the character that starts with this byte, in valid UTF-8.
inline int64_t utf8_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xE0) return 2;
  return lead < 0xF0 ? 3 : 4;
}

// Reads the character at `at` and moves `at` past it. The text must be valid UTF-8.
inline char32_t next_char(std::string_view text, int64_t& at) {
  const auto byte = [&](int64_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[static_cast<size_t>(i)]));
  };
  const char32_t lead = byte(at);
  const int64_t length = utf8_length(static_cast<unsigned char>(lead));
  char32_t result = lead;
  if (length == 2) result = (lead & 0x1F) << 6 | (byte(at + 1) & 0x3F);
  if (length == 3) result = (lead & 0x0F) << 12 | (byte(at + 1) & 0x3F) << 6 | (byte(at + 2) & 0x3F);
  if (length == 4)
    result = (lead & 0x07) << 18 | (byte(at + 1) & 0x3F) << 12 | (byte(at + 2) & 0x3F) << 6 |
             (byte(at + 3) & 0x3F);
  at += length;
  return result;
}

void append_utf8(std::string& out, char32_t c);
std::u32string to_utf32(std::string_view valid_utf8);
std::string to_utf8(std::u32string_view text);

// What a run of bytes starts with: a whole character, a broken one (its longest valid beginning), or the
// beginning of one that needs more bytes.
enum class Utf8Start { kComplete, kBroken, kIncomplete };
struct Utf8Part {
  Utf8Start kind;
  int64_t length;
};
Utf8Part utf8_part(std::string_view bytes);  // bytes must not be empty

bool is_valid_utf8(std::string_view bytes);
// Each maximal part that is not a character becomes U+FFFD, as Unicode recommends and Rust's lossy decoding does.
std::string repair_utf8(std::string_view bytes);

}  // namespace cheetah
