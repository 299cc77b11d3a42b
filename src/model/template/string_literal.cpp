// SPDX-License-Identifier: MIT
// The escapes of a string literal, as Python's unicode-escape reads them.
#include "base/format.h"
#include "model/template/lexer.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char small = static_cast<char>(c | 0x20);
  return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
}

struct Reader {
  std::string_view body;
  int line;
  size_t at = 0;
  std::string out{};
  char32_t high_surrogate = 0;

  char32_t hex(size_t digits) {
    char32_t value = 0;
    for (size_t i = 0; i < digits; ++i) {
      const int digit = at < body.size() ? hex_digit(body[at]) : -1;
      if (digit < 0) throw SyntaxError(line, format("a string escape needs {} hexadecimal digits", digits));
      value = value * 16 + static_cast<char32_t>(digit);
      ++at;
    }
    if (value > 0x10ffff) throw SyntaxError(line, "illegal Unicode character in a string");
    return value;
  }

  // Two halves of a surrogate pair make one character.
  void unit(char32_t c) {
    const bool low = c >= 0xdc00 && c <= 0xdfff;
    if (high_surrogate != 0) {
      append_utf8(out, low ? 0x10000 + ((high_surrogate - 0xd800) << 10) + (c - 0xdc00) : 0xfffd);
      high_surrogate = 0;
      if (low) return;
    }
    if (c >= 0xd800 && c <= 0xdbff)
      high_surrogate = c;
    else
      append_utf8(out, c);
  }

  void plain(std::string_view text) {
    if (high_surrogate != 0) append_utf8(out, 0xfffd);
    high_surrogate = 0;
    out += text;
  }

  void octal() {
    char32_t value = 0;
    for (int i = 0; i < 3 && at < body.size() && body[at] >= '0' && body[at] <= '7'; ++i)
      value = value * 8 + static_cast<char32_t>(body[at++] - '0');
    unit(value);
  }

  // A backslash before a non-ASCII character stays, and the character becomes its escape's text.
  void backslash_before_wide() {
    const auto c = static_cast<uint32_t>(next_code_point(body, at));
    plain(c <= 0xff ? format("\\x{:02x}", c) : c <= 0xffff ? format("\\u{:04x}", c) : format("\\U{:08x}", c));
  }

  void escape() {
    static constexpr std::string_view kFrom = "\\'\"abfnrtv";
    static constexpr std::string_view kTo = "\\'\"\a\b\f\n\r\t\v";
    const char c = body[at];
    if ((c & 0x80) != 0) return backslash_before_wide();
    if (c >= '0' && c <= '7') return octal();
    ++at;
    if (c == '\n') return;
    if (c == 'x') return unit(hex(2));
    if (c == 'u') return unit(hex(4));
    if (c == 'U') return unit(hex(8));
    if (c == 'N') throw SyntaxError(line, "\\N{...} escapes are not supported in strings");
    const size_t known = kFrom.find(c);
    if (known != std::string_view::npos) return plain(kTo.substr(known, 1));
    plain("\\");
    plain(std::string_view(&c, 1));
  }
};

}  // namespace

std::string unescape(std::string_view body, int line) {
  Reader reader{body, line};
  while (reader.at < body.size()) {
    const size_t slash = body.find('\\', reader.at);
    if (slash != reader.at) {
      const size_t end = slash == std::string_view::npos ? body.size() : slash;
      reader.plain(body.substr(reader.at, end - reader.at));
      reader.at = end;
      continue;
    }
    ++reader.at;
    if (reader.at >= body.size()) throw SyntaxError(line, "\\ at end of string");
    reader.escape();
  }
  reader.plain("");
  return std::move(reader.out);
}

}  // namespace cheetah::jinja
