// SPDX-License-Identifier: MIT
#include "serve/api/fields.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "base/text.h"
#include "serve/api/failure.h"

namespace cheetah {
namespace {

// Of the names the one that a mistyped name may have meant; empty: none is near.
std::string_view nearest(std::string_view typed, const std::vector<std::string_view>& names) {
  if (typed.size() > 40) return {};
  std::string_view best;
  int64_t least = 3;
  for (const std::string_view name : names)
    if (const int64_t distance = edit_distance(typed, name); distance < least) {
      best = name;
      least = distance;
    }
  return best;
}

std::optional<int64_t> whole_number(const OrderedJson& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    return number > static_cast<uint64_t>(INT64_MAX) ? std::nullopt : std::optional<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const auto number = value.get<double>();
  if (std::abs(number) > 9e15 || number != std::floor(number)) return std::nullopt;
  return static_cast<int64_t>(number);
}

}  // namespace

int64_t integer_of(const OrderedJson& value, const std::string& param, int64_t low, int64_t high) {
  const std::optional<int64_t> number = whole_number(value);
  if (!number || *number < low || *number > high)
    refuse("invalid_value", param,
        format("{} must be an integer in [{}, {}], got {}", param, low, high, shown(value)));
  return *number;
}

int32_t token_id_of(const OrderedJson& value, const std::string& param, int64_t vocab) {
  const std::optional<int64_t> id = whole_number(value);
  if (!id || *id < 0 || *id >= vocab)
    refuse("invalid_token_id", param,
        format("{}={} is not a token id: expected an integer in [0, {}]", param, shown(value), vocab - 1));
  return static_cast<int32_t>(*id);
}

Fields::Fields(const OrderedJson& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object())
    refuse("invalid_type", path_, format("{} must be an object, got {}", path_, shown(object)));
}

std::string Fields::param(std::string_view name) const {
  return path_.empty() ? std::string(name) : format("{}.{}", path_, name);
}

void Fields::missing(std::string_view name) const {
  refuse("missing_parameter", param(name), format("{} is required", param(name)));
}

void Fields::wrong_type(std::string_view name, const OrderedJson& value, std::string_view expected) const {
  refuse("invalid_type", param(name), format("{} must be {}, got {}", param(name), expected, shown(value)));
}

const OrderedJson* Fields::find(std::string_view name) {
  if (std::ranges::find(known_, name) == known_.end()) known_.push_back(name);
  const auto at = object_.find(name);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t low, int64_t high) {
  const OrderedJson* value = find(name);
  if (!value) return std::nullopt;
  return integer_of(*value, param(name), low, high);
}

std::optional<double> Fields::number(std::string_view name, FieldRange range) {
  const OrderedJson* value = find(name);
  if (!value) return std::nullopt;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  const bool high_enough = range.above_low ? number > range.low : number >= range.low;
  if (!high_enough || !(number <= range.high))  // a comparison with NaN is false
    refuse("invalid_value", param(name),
        format("{} must be a finite number in {}{}, {}], got {}", param(name), range.above_low ? "(" : "[",
            range.low, range.high, shown(*value)));
  return number;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const OrderedJson* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) wrong_type(name, *value, "true or false");
  return value->get<bool>();
}

std::optional<std::string> Fields::string(std::string_view name, size_t max_bytes) {
  const OrderedJson* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) wrong_type(name, *value, "a string");
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > max_bytes)
    refuse("invalid_value", param(name),
        format("{} has {} bytes, more than the limit of {}", param(name), text.size(), max_bytes));
  if (const size_t at = text.find('\0'); at != std::string::npos)
    refuse("invalid_unicode", param(name), format("{} has a NUL character at byte {}", param(name), at));
  return text;
}

std::string Fields::required_string(std::string_view name, size_t max_bytes) {
  std::optional<std::string> text = string(name, max_bytes);
  if (!text) missing(name);
  return *std::move(text);
}

const OrderedJson* Fields::object(std::string_view name) {
  const OrderedJson* value = find(name);
  if (value && !value->is_object()) wrong_type(name, *value, "an object");
  return value;
}

const OrderedJson* Fields::array(std::string_view name) {
  const OrderedJson* value = find(name);
  if (value && !value->is_array()) wrong_type(name, *value, "an array");
  return value;
}

void Fields::ignore(std::initializer_list<std::string_view> names) {
  known_.insert(known_.end(), names.begin(), names.end());
}

void Fields::no_effect(std::string_view name, std::initializer_list<std::string_view> harmless) {
  const OrderedJson* value = find(name);
  if (!value) return;
  const std::string text = dump_ordered(*value);
  if (std::ranges::find(harmless, text) == harmless.end())
    warnings_.push_back(format("{} has no effect here", param(name)));
}

void Fields::finish(bool strict, std::vector<std::string>& warnings) const {
  constexpr size_t kMaxWarnings = 8;
  warnings.insert(warnings.end(), warnings_.begin(), warnings_.end());
  for (const auto& [name, value] : object_.items()) {
    if (std::ranges::find(known_, name) != known_.end()) continue;
    const std::string seen = printable(name, 40);
    std::string message = format("unknown parameter {}", param(seen));
    if (const std::string_view near = nearest(name, known_); !near.empty())
      message += format(" (did you mean {}?)", near);
    if (strict) refuse("unknown_parameter", param(seen), message);
    if (warnings.size() < kMaxWarnings) warnings.push_back(std::move(message));
  }
}

}  // namespace cheetah
