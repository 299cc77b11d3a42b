// SPDX-License-Identifier: MIT
#include "base/utf8.h"

#include <cstring>

namespace cheetah {

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

std::u32string to_utf32(std::string_view valid_utf8) {
  std::u32string out;
  for (int64_t at = 0; at < std::ssize(valid_utf8);) out += next_char(valid_utf8, at);
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) append_utf8(out, c);
  return out;
}

Utf8Part utf8_part(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {Utf8Start::kComplete, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Start::kBroken, 1};
  const int64_t length = utf8_length(lead);
  for (int64_t i = 1; i < length; ++i) {
    if (i == std::ssize(bytes)) return {Utf8Start::kIncomplete, i};
    unsigned char low = 0x80, high = 0xBF;
    if (i == 1 && lead == 0xE0) low = 0xA0;   // no overlong forms
    if (i == 1 && lead == 0xED) high = 0x9F;  // no surrogates
    if (i == 1 && lead == 0xF0) low = 0x90;
    if (i == 1 && lead == 0xF4) high = 0x8F;  // not beyond U+10FFFF
    const unsigned char next = byte(static_cast<size_t>(i));
    if (next < low || next > high) return {Utf8Start::kBroken, i};
  }
  return {Utf8Start::kComplete, length};
}

namespace {
// Length of the longest prefix that is plain ASCII, eight bytes at a time.
size_t ascii_prefix(std::string_view bytes) {
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    if (word & 0x8080808080808080ULL) break;
  }
  while (at < bytes.size() && static_cast<unsigned char>(bytes[at]) < 0x80) ++at;
  return at;
}
}  // namespace

bool is_valid_utf8(std::string_view bytes) {
  while (true) {
    bytes.remove_prefix(ascii_prefix(bytes));
    if (bytes.empty()) return true;
    const Utf8Part part = utf8_part(bytes);
    if (part.kind != Utf8Start::kComplete) return false;
    bytes.remove_prefix(static_cast<size_t>(part.length));
  }
}

std::string repair_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Utf8Part part = utf8_part(bytes);
    if (part.kind == Utf8Start::kComplete)
      out += bytes.substr(0, static_cast<size_t>(part.length));
    else
      out += kReplacementUtf8;
    bytes.remove_prefix(static_cast<size_t>(part.length));
  }
  return out;
}

}  // namespace cheetah
