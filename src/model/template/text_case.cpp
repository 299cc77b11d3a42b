// SPDX-License-Identifier: MIT
// Classes and cases of characters, from the Unicode tables.
#include <utf8proc.h>

#include <array>
#include <utility>

#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

// Upper cases of more than one character (Unicode SpecialCasing.txt), which the simple tables leave out.
constexpr std::array<std::pair<char32_t, std::u32string_view>, 14> kLongUpper = {{
    {0x00df, U"SS"},
    {0x0149, U"\u02bcN"},
    {0x01f0, U"J\u030c"},
    {0x0587, U"\u0535\u0552"},
    {0x1e96, U"H\u0331"},
    {0x1e97, U"T\u0308"},
    {0x1e98, U"W\u030a"},
    {0x1e99, U"Y\u030a"},
    {0xfb00, U"FF"},
    {0xfb01, U"FI"},
    {0xfb02, U"FL"},
    {0xfb03, U"FFI"},
    {0xfb04, U"FFL"},
    {0xfb05, U"ST"},
}};

void append_upper(std::string& out, char32_t c, bool title_case = false) {
  for (const auto& [from, to] : kLongUpper) {
    if (from != c) continue;
    append_utf8(out, to[0]);
    for (const char32_t rest : to.substr(1))
      append_utf8(
          out, title_case ? static_cast<char32_t>(utf8proc_tolower(static_cast<int32_t>(rest))) : rest);
    return;
  }
  const auto code = static_cast<utf8proc_int32_t>(c);
  append_utf8(out, static_cast<char32_t>(title_case ? utf8proc_totitle(code) : utf8proc_toupper(code)));
}

// A capital sigma at the end of a word has its own small letter.
bool ends_word(std::u32string_view text, size_t at) {
  const bool before = at > 0 && is_cased(text[at - 1]);
  const bool after = at + 1 < text.size() && is_cased(text[at + 1]);
  return before && !after;
}

void append_lower(std::string& out, std::u32string_view text, size_t at) {
  const char32_t c = text[at];
  if (c == 0x3a3) {
    append_utf8(out, ends_word(text, at) ? 0x3c2 : 0x3c3);
  } else if (c == 0x130) {
    out += "i\xcc\x87";
  } else {
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool is_alpha(char32_t c) {
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}
bool is_numeric(char32_t c) {
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL || c == 0xaa || c == 0xba; }
bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_cased(char32_t c) { return is_lower(c) || is_upper(c) || category(c) == UTF8PROC_CATEGORY_LT; }
bool is_word(char32_t c) { return c == '_' || is_alpha(c) || is_numeric(c); }

bool is_identifier(std::string_view bytes) {
  bool first = true;
  for (size_t at = 0; at < bytes.size(); first = false) {
    const char32_t c = next_code_point(bytes, at);
    const auto kind = category(c);
    const bool start = c == '_' || is_alpha(c) || kind == UTF8PROC_CATEGORY_NL;
    const bool inner = kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_MC ||
                       kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_PC;
    if (!start && (first || !inner)) return false;
  }
  return !bytes.empty();
}

std::string upper(std::string_view bytes) {
  std::string out;
  for (size_t at = 0; at < bytes.size();) append_upper(out, next_code_point(bytes, at));
  return out;
}

std::string lower(std::string_view bytes) {
  const std::u32string text = decode(bytes);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) append_lower(out, text, i);
  return out;
}

std::string casefold(std::string_view bytes) {
  return lower(replace_all(replace_all(bytes, "\xc3\x9f", "ss"), "\xcf\x82", "\xcf\x83"));
}

std::string title(std::string_view bytes) {
  const std::u32string text = decode(bytes);
  std::string out;
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (inside)
      append_lower(out, text, i);
    else
      append_upper(out, text[i], true);
    inside = is_cased(text[i]);
  }
  return out;
}

std::string swapcase(std::string_view bytes) {
  const std::u32string text = decode(bytes);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (is_upper(text[i]))
      append_lower(out, text, i);
    else
      append_upper(out, text[i]);
  }
  return out;
}

std::string capitalize(std::string_view bytes) {
  const std::u32string text = decode(bytes);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i == 0)
      append_upper(out, text[0], true);
    else
      append_lower(out, text, i);
  }
  return out;
}

}  // namespace cheetah::jinja
