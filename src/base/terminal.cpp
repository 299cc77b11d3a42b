// SPDX-License-Identifier: MIT
#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/text.h"

namespace cheetah {
namespace {

// The code point at the front and its length in bytes; a broken byte counts as one character.
struct Character {
  uint32_t code = 0;
  size_t bytes = 1;
};

constexpr uint32_t kNoColumn = 0x200B;  // zero-width space

// "\033[1m" and the like, which take no column.
size_t escape_bytes(std::string_view text) {
  if (!text.starts_with("\033[")) return 0;
  const size_t end = text.find_first_of("ABCDHJKfm", 2);
  return end == std::string_view::npos ? 0 : end + 1;
}

Character first_character(std::string_view text) {
  if (const size_t bytes = escape_bytes(text); bytes > 0) return {kNoColumn, bytes};
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t lead = byte(0);
  const size_t bytes = lead < 0x80 ? 1 : lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (bytes == 1 || bytes > text.size()) return {lead, 1};
  uint32_t code = lead & (0xFFu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) code = code << 6 | (byte(i) & 0x3F);
  return {code, bytes};
}

// Combining marks take no column; East Asian wide characters and pictures take two.
int width_of(uint32_t code) {
  if ((code >= 0x300 && code < 0x370) || (code >= 0x200B && code <= 0x200F) ||
      (code >= 0xFE00 && code <= 0xFE0F))
    return 0;
  const bool wide = (code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0xA4CF) ||
                    (code >= 0xAC00 && code <= 0xD7A3) || (code >= 0xF900 && code <= 0xFAFF) ||
                    (code >= 0xFE30 && code <= 0xFE6F) || (code >= 0xFF00 && code <= 0xFF60) ||
                    (code >= 0x1F300 && code <= 0x1FAFF) || (code >= 0x20000 && code <= 0x3FFFD);
  return wide ? 2 : 1;
}

// As many bytes as fit; at least one character.
size_t bytes_that_fit(std::string_view text, int columns) {
  size_t bytes = 0;
  for (int at = 0; bytes < text.size();) {
    const Character character = first_character(text.substr(bytes));
    at += width_of(character.code);
    if (at > columns && bytes > 0) break;
    bytes += character.bytes;
  }
  return bytes;
}

void append_word(std::string& out, int& at, std::string_view word, int columns, int indent) {
  int width = columns_of(word);
  if (at > indent && at + 1 + width > columns) {
    out += '\n' + std::string(static_cast<size_t>(indent), ' ');
    at = indent;
  } else if (at > indent) {
    out += ' ';
    ++at;
  }
  const int room = std::max(1, columns - indent);
  for (; width > room; width = columns_of(word)) {  // a word longer than the line
    const size_t bytes = bytes_that_fit(word, room);
    out += std::string(word.substr(0, bytes)) + '\n' + std::string(static_cast<size_t>(indent), ' ');
    word.remove_prefix(bytes);
  }
  out += word;
  at += width;
}

}  // namespace

int terminal_columns(int descriptor) {
  winsize size = {};
  return isatty(descriptor) == 1 && ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int columns_of(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    columns += width_of(character.code);
    text.remove_prefix(character.bytes);
  }
  return columns;
}

std::string shortened(std::string_view text, int columns) {
  if (columns_of(text) <= columns) return std::string(text);
  std::string out;
  int at = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    at += width_of(character.code);
    if (at >= columns) break;
    out += text.substr(0, character.bytes);
    text.remove_prefix(character.bytes);
  }
  return out + "…";
}

std::string wrapped(std::string_view text, int columns, int indent) {
  std::string out;
  bool first = true;
  for (const std::string_view line : split(text, '\n')) {
    if (!first) out += '\n' + std::string(static_cast<size_t>(indent), ' ');
    first = false;
    int at = indent;
    for (const std::string_view word : words_of(line)) append_word(out, at, word, columns, indent);
  }
  return out;
}

std::string fitted(std::string_view text, int columns) {
  if (columns <= 0) return std::string(text);
  std::string out;
  bool first = true;
  for (const std::string_view line : split(text, '\n')) {
    if (!first) out += '\n';
    first = false;
    if (columns_of(line) <= columns) {
      out += line;
      continue;
    }
    const size_t space = std::min(line.find_first_not_of(' '), line.size());
    const int indent = std::min(static_cast<int>(space), columns / 2);
    const std::string begin(static_cast<size_t>(indent), ' ');
    out += begin + wrapped(line.substr(space), columns, indent + (indent + 2 < columns / 2 ? 2 : 0));
  }
  return out;
}

}  // namespace cheetah
