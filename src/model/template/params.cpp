// SPDX-License-Identifier: MIT
#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/text.h"

namespace cheetah::jinja {

std::string Method::repr() const { return format("<built-in method {}>", name); }

Params::Params(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
    size_t required)
    : function_(function), values_(names.size(), nullptr) {
  if (args.positional.size() > names.size())
    fail(
        format("{}() takes at most {} arguments ({} given)", function, names.size(), args.positional.size()));
  for (size_t i = 0; i < args.positional.size(); ++i) values_[i] = &args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto at = std::find(names.begin(), names.end(), std::string_view(name));
    if (at == names.end())
      fail(format("{}() got an unexpected keyword argument '{}'", function, printable(name)));
    const Value*& place = values_[static_cast<size_t>(at - names.begin())];
    if (place) fail(format("{}() got multiple values for argument '{}'", function, name));
    place = &value;
  }
  for (size_t i = 0; i < required; ++i)
    if (!values_[i]) fail(format("{}() missing required argument: '{}'", function, *(names.begin() + i)));
}

int64_t Params::integer(size_t index, int64_t fallback) const {
  if (!given(index)) return fallback;
  const Value& value = *values_[index];
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_integral())
    fail(format("{}(): '{}' object cannot be interpreted as an integer", function_, type_name(value)));
  return value.as_integer();
}

bool Params::boolean(size_t index, bool fallback) const {
  return given(index) ? truthy(*values_[index]) : fallback;
}

std::string Params::string(size_t index, std::string fallback) const {
  if (!given(index)) return fallback;
  const Value& value = *values_[index];
  if (value.is_undefined()) fail(value.undefined_message());
  if (!value.is_string()) fail(format("{}() argument must be str, not {}", function_, type_name(value)));
  return value.bytes();
}

std::string Params::text_of(size_t index, std::string fallback) const {
  return given(index) ? to_str(*values_[index]) : fallback;
}

namespace {

// The digits without the underscores Python allows between them; nullopt when one stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto alnum = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    if (i == 0 || i + 1 == text.size() || !alnum(text[i - 1]) || !alnum(text[i + 1])) return std::nullopt;
  }
  return out;
}

}  // namespace

std::optional<int64_t> parse_integer(std::string_view text, int64_t base) {
  text = strip(text);
  bool negative = false;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.size() > 2 && text[0] == '0') {
    const char mark = static_cast<char>(text[1] | 0x20);
    const int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    if (marked != 0 && (base == marked || base == 0)) {
      base = marked;
      text.remove_prefix(2);
    }
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || text.empty()) return std::nullopt;
  const auto digits = without_underscores(text);
  if (!digits || digits->empty() || digits->front() == '-') return std::nullopt;
  uint64_t value = 0;
  const char* const end = digits->data() + digits->size();
  const auto [last, problem] = std::from_chars(digits->data(), end, value, static_cast<int>(base));
  if (last != end || problem == std::errc::invalid_argument) return std::nullopt;
  if (problem == std::errc::result_out_of_range || value > (uint64_t{1} << 63) - (negative ? 0 : 1))
    fail("integer overflow: the number does not fit in 64 bits");
  return negative ? static_cast<int64_t>(0 - value) : static_cast<int64_t>(value);
}

std::optional<double> parse_float(std::string_view text) {
  text = strip(text);
  const auto plain = without_underscores(text);
  if (!plain || plain->empty()) return std::nullopt;
  std::string_view digits = *plain;
  const bool negative = digits[0] == '-';
  if (digits[0] == '+' || digits[0] == '-') digits.remove_prefix(1);
  const std::string small = lower(digits);
  double value = 0;
  if (small == "nan")
    value = std::nan("");
  else if (small == "inf" || small == "infinity")
    value = HUGE_VAL;
  else {
    if (digits.empty() || !(std::isdigit(static_cast<unsigned char>(digits[0])) != 0 || digits[0] == '.'))
      return std::nullopt;
    const auto [last, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (last != digits.data() + digits.size() || problem == std::errc::invalid_argument) return std::nullopt;
    if (problem == std::errc::result_out_of_range) value = std::strtod(std::string(digits).c_str(), nullptr);
  }
  return negative ? -value : value;
}

}  // namespace cheetah::jinja
