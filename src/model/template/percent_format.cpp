// SPDX-License-Identifier: MIT
// "%s has %d" % values.
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "model/template/format_spec.h"
#include "model/template/runtime.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

class PercentFormatter {
 public:
  PercentFormatter(Runtime& in, std::string_view pattern, const Value& values, bool safe)
      : in_(in), pattern_(pattern), values_(values), safe_(safe) {
    if (values.is_tuple())
      arguments_ = values.items_of().items;
    else
      arguments_.push_back(values);
  }

  std::string run() {
    std::string out;
    while (at_ < pattern_.size()) {
      const size_t percent = std::min(pattern_.find('%', at_), pattern_.size());
      out += pattern_.substr(at_, percent - at_);
      at_ = percent + 1;
      if (percent < pattern_.size()) out += field();
      if (static_cast<int64_t>(out.size()) > in_.max_text_bytes())
        fail("memory limit exceeded: a formatted text is too long");
    }
    const bool spare = values_.is_tuple() ? used_ < arguments_.size()
                                          : used_ == 0 && !values_.is_dict() && !values_.is_list();
    if (spare && !named_) fail("not all arguments converted during string formatting");
    return out;
  }

 private:
  char peek() const { return at_ < pattern_.size() ? pattern_[at_] : '\0'; }

  const Value& next_argument() {
    if (used_ >= arguments_.size()) fail("not enough arguments for format string");
    return arguments_[used_++];
  }

  std::optional<Value> named_argument() {
    if (peek() != '(') return std::nullopt;
    if (!values_.is_dict()) fail("format requires a mapping");
    size_t end = at_ + 1;
    for (int open = 1; end < pattern_.size(); ++end) {
      if (pattern_[end] == '(') ++open;
      if (pattern_[end] == ')' && --open == 0) break;
    }
    if (end >= pattern_.size()) fail("incomplete format key");
    const std::string key(pattern_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    named_ = true;
    const Value* value = values_.dict_of().find(key);
    if (!value) fail(format("format string names the key {}, which is missing", string_repr(printable(key))));
    return *value;
  }

  int64_t number(int64_t most) {
    if (peek() == '*') {
      ++at_;
      const Value& value = next_argument();
      if (!value.is_integral()) fail("* wants int");
      if (value.as_integer() > most || value.as_integer() < -most)
        fail("memory limit exceeded: a format width is too large");
      return value.as_integer();
    }
    int64_t result = 0;
    for (; std::isdigit(static_cast<unsigned char>(peek())) != 0; ++at_) {
      result = result * 10 + (peek() - '0');
      if (result > most) fail("memory limit exceeded: a format width is too large");
    }
    return result;
  }

  std::string field() {
    const std::optional<Value> named = named_argument();
    FormatSpec spec;
    spec.align = '>';
    bool zero = false;
    for (;; ++at_) {
      if (peek() == '-')
        spec.align = '<';
      else if (peek() == '+')
        spec.sign = '+';
      else if (peek() == ' ' && spec.sign != '+')
        spec.sign = ' ';
      else if (peek() == '#')
        spec.alternate = true;
      else if (peek() == '0')
        zero = true;
      else if (peek() != ' ')
        break;
    }
    spec.width = number(kMaxFormatWidth);
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (peek() == '.') {
      ++at_;
      spec.precision = static_cast<int>(std::max<int64_t>(number(kMaxPrecision), 0));
    }
    while (peek() == 'h' || peek() == 'l' || peek() == 'L') ++at_;
    if (at_ >= pattern_.size()) fail("incomplete format");
    spec.type = pattern_[at_++];
    if (spec.type == '%') return "%";
    in_.budget().bytes(spec.width);
    if (zero && spec.align != '<') {
      spec.fill.assign(1, '0');
      spec.align = '=';
    }
    return convert(named ? *named : next_argument(), spec);
  }

  std::string convert(const Value& value, FormatSpec spec) {
    switch (spec.type) {
      case 's':
      case 'r':
      case 'a':
        return text(value, spec);
      case 'c':
        return character(value, spec);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return integer(value, spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G': {
        if (value.is_undefined()) fail(value.undefined_message());
        if (!value.is_number()) fail(format("must be real number, not {}", type_name(value)));
        return format_double(value.as_double(), spec);
      }
      default:
        break;
    }
    fail(format("unsupported format character '{}'", printable(std::string_view(&spec.type, 1))));
  }

  std::string text(const Value& value, FormatSpec spec) {
    in_.budget().bytes(value.is_generator() ? 0 : value.weight());
    std::string shown = spec.type == 's' ? to_str(value) : repr(value);
    if (safe_ && !(value.is_string() && value.text().safe)) shown = escape_html(shown);
    if (spec.precision >= 0) shown = encode(decode(shown).substr(0, static_cast<size_t>(spec.precision)));
    if (spec.align == '=') {
      spec.align = '>';
      spec.fill.assign(1, ' ');
    }
    return pad_text(shown, spec);
  }

  static std::string character(const Value& value, FormatSpec spec) {
    if (spec.align == '=') spec.align = '>';
    spec.fill.assign(1, ' ');
    if (value.is_string() && count_code_points(value.bytes()) == 1) return pad_text(value.bytes(), spec);
    if (!value.is_integral()) fail("%c requires int or char");
    spec.precision = -1;
    return format_integer(value.as_integer(), spec);
  }

  static std::string integer(const Value& value, FormatSpec spec) {
    if (value.is_undefined()) fail(value.undefined_message());
    const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
    if (!value.is_integral() && !(decimal && value.is_float()))
      fail(format("%{} format: a{} is required, not {}", spec.type, decimal ? " real number" : "n integer",
          type_name(value)));
    if (value.is_float() && std::abs(value.as_double()) >= 9.2e18) fail("integer overflow");
    const int64_t number = value.is_float() ? static_cast<int64_t>(value.as_double()) : value.as_integer();
    if (decimal) spec.type = 'd';
    if (spec.precision >= 0) {  // at least so many digits
      const int precision = std::exchange(spec.precision, -1);
      FormatSpec plain;
      plain.type = spec.type;
      std::string digits = format_integer(number, plain);
      const bool negative = digits.starts_with("-");
      if (negative) digits.erase(0, 1);
      if (static_cast<int>(digits.size()) < precision)
        digits.insert(0, static_cast<size_t>(precision) - digits.size(), '0');
      if (spec.align == '=') spec.align = '>';
      return pad_text((negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign)) + digits, spec);
    }
    return format_integer(number, spec);
  }

  Runtime& in_;
  std::string_view pattern_;
  const Value& values_;
  bool safe_;
  std::vector<Value> arguments_;
  size_t used_ = 0;
  size_t at_ = 0;
  bool named_ = false;
};

}  // namespace

std::string percent_format(Runtime& in, const std::string& pattern, const Value& values, bool safe) {
  return PercentFormatter(in, pattern, values, safe).run();
}

}  // namespace cheetah::jinja
