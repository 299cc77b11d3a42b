// SPDX-License-Identifier: MIT
// Numbers by a format specification, as Python's format() and % write them.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/format.h"
#include "model/template/format_spec.h"
#include "model/template/runtime.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

// Puts a separator between groups of digits, from the right.
std::string grouped(const std::string& digits, char separator, size_t group) {
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i != 0 && (digits.size() - i) % group == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string with_groups(const std::string& number, char separator) {
  if (separator == '\0') return number;
  const size_t end = std::min(number.find_first_not_of("0123456789"), number.size());
  return grouped(number.substr(0, end), separator, 3) + number.substr(end);
}

std::string radix_digits(uint64_t value, unsigned base, bool upper_case) {
  const char* digits = upper_case ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string out;
  do out.insert(out.begin(), digits[value % base]);
  while ((value /= base) != 0);
  return out;
}

std::string sign_of(bool negative, char style) {
  if (negative) return "-";
  return style == '+' || style == ' ' ? std::string(1, style) : "";
}

std::string integer_body(uint64_t size, const FormatSpec& spec, std::string& prefix) {
  switch (spec.type) {
    case 'b':
      prefix = spec.alternate ? "0b" : "";
      break;
    case 'o':
      prefix = spec.alternate ? "0o" : "";
      break;
    case 'x':
      prefix = spec.alternate ? "0x" : "";
      break;
    case 'X':
      prefix = spec.alternate ? "0X" : "";
      break;
    default:
      return with_groups(format("{}", size), spec.group);
  }
  const unsigned base = spec.type == 'b' ? 2 : spec.type == 'o' ? 8 : 16;
  const std::string digits = radix_digits(size, base, spec.type == 'X');
  return spec.group == '_' ? grouped(digits, '_', 4) : digits;
}

std::string float_text(double value, const FormatSpec& spec) {
  if (spec.type == '\0' && spec.precision < 0) return float_repr(value);
  if (spec.type == '\0') {
    // Like 'g', but a number keeps at least one digit after the point.
    std::string text = format_float(value, 'g', spec.precision, spec.alternate);
    const bool plain = text.find_first_of(".en") == std::string::npos;
    return plain ? text + ".0" : text;
  }
  if (spec.type == '%') return format_float(value * 100, 'f', spec.precision, spec.alternate) + "%";
  return format_float(value, spec.type, spec.precision, spec.alternate);
}

std::string number_field(const std::string& sign, const std::string& body, const FormatSpec& spec) {
  FormatSpec padded = spec;
  if (spec.align == '\0') padded.align = '>';
  if (padded.align != '=') return pad_text(sign + body, padded);
  std::string middle = body;
  const auto missing = spec.width - static_cast<int64_t>(sign.size() + body.size());
  if (missing > 0) {
    std::string fill;
    for (int64_t i = 0; i < missing; ++i) fill += spec.fill;
    middle = fill + middle;
    if (spec.group != '\0' && spec.fill == "0") {
      // Grouped zeros: the separators run through the padding, and the field never starts with one.
      std::string digits = body;
      std::erase(digits, spec.group);
      const size_t point = std::min(digits.find_first_not_of("0123456789"), digits.size());
      std::string whole = digits.substr(0, point);
      const std::string tail = digits.substr(point);
      while (
          static_cast<int64_t>(sign.size() + grouped(whole, spec.group, 3).size() + tail.size()) < spec.width)
        whole.insert(whole.begin(), '0');
      middle = grouped(whole, spec.group, 3) + tail;
    }
  }
  return sign + middle;
}

}  // namespace

std::string format_float(double value, char type, int precision, bool alternate) {
  if (!std::isfinite(value)) {
    std::string text = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
    return type == 'F' || type == 'E' || type == 'G' ? upper(text) : text;
  }
  const int digits = precision < 0 ? 6 : precision;
  const char letters[] = {'%', alternate ? '#' : '.', alternate ? '.' : '*', alternate ? '*' : type,
      alternate ? type : '\0', '\0'};
  const int size = std::snprintf(nullptr, 0, letters, digits, value);
  std::string out(static_cast<size_t>(size), '\0');
  std::snprintf(out.data(), out.size() + 1, letters, digits, value);
  return out;
}

std::string pad_text(const std::string& text, const FormatSpec& spec) {
  const int64_t missing = spec.width - count_code_points(text);
  if (missing <= 0) return text;
  const int64_t left = spec.align == '>' ? missing : spec.align == '^' ? missing / 2 : 0;
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += spec.fill;
  out += text;
  for (int64_t i = left; i < missing; ++i) out += spec.fill;
  return out;
}

std::string format_integer(int64_t value, const FormatSpec& spec) {
  if (spec.precision >= 0) fail("Precision not allowed in integer format specifier");
  if (spec.type == 'c') {
    std::string character;
    if (value < 0 || value > 0x10ffff) fail("%c arg not in range(0x110000)");
    append_utf8(character, static_cast<char32_t>(value));
    return pad_text(character, spec);
  }
  const uint64_t size = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::string prefix;
  const std::string body = integer_body(size, spec, prefix);
  return number_field(sign_of(value < 0, spec.sign) + prefix, body, spec);
}

std::string format_double(double value, const FormatSpec& spec) {
  std::string text = float_text(value, spec);
  const bool negative = text.starts_with("-");
  if (negative) text.erase(0, 1);
  return number_field(sign_of(negative, spec.sign), with_groups(text, spec.group), spec);
}

}  // namespace cheetah::jinja
