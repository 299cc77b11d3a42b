// SPDX-License-Identifier: MIT
#include "engine/grammar/utf8.h"

#include "base/error.h"
#include "base/format.h"

namespace cheetah {

void append_utf8(std::string& out, uint32_t codepoint) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (codepoint < 0x80) return put(codepoint);
  if (codepoint < 0x800) {
    put(0xC0 | codepoint >> 6);
  } else {
    if (codepoint < 0x10000) {
      put(0xE0 | codepoint >> 12);
    } else {
      put(0xF0 | codepoint >> 18);
      put(0x80 | (codepoint >> 12 & 0x3F));
    }
    put(0x80 | (codepoint >> 6 & 0x3F));
  }
  put(0x80 | (codepoint & 0x3F));
}

uint32_t read_utf8(std::string_view text, size_t& at, std::string_view what) {
  const size_t start = at;
  Utf8Position position;
  uint32_t codepoint = 0;
  do {
    if (at >= text.size()) throw Error(format("{}: the character at byte {} is cut off", what, start));
    const auto byte = static_cast<uint8_t>(text[at]);
    position = position.after(byte);
    if (position.invalid()) throw Error(format("{}: invalid UTF-8 at byte {}", what, start));
    if (at == start)
      codepoint = byte < 0x80 ? byte : byte < 0xE0 ? byte & 0x1Fu : byte < 0xF0 ? byte & 0x0Fu : byte & 0x07u;
    else
      codepoint = codepoint << 6 | (byte & 0x3Fu);
    ++at;
  } while (!position.at_boundary());
  return codepoint;
}

}  // namespace cheetah
