// SPDX-License-Identifier: MIT
// Typed access to GGUF metadata. The views were checked when the file was parsed; only their types are
// checked here.
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "model/files/gguf.h"

namespace cheetah {
namespace {

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// Calls use(value) with the element in its own type; false for strings.
template <class Use>
bool visit_element(const GgufValue& value, int64_t index, Use&& use) {
  const auto element = [&]<class T>(T) {
    use(load<T>(value.bytes.data() + index * int64_t{sizeof(T)}));
    return true;
  };
  switch (value.type) {
    case GgufType::kU8:
      return element(uint8_t{});
    case GgufType::kI8:
      return element(int8_t{});
    case GgufType::kU16:
      return element(uint16_t{});
    case GgufType::kI16:
      return element(int16_t{});
    case GgufType::kU32:
      return element(uint32_t{});
    case GgufType::kI32:
      return element(int32_t{});
    case GgufType::kF32:
      return element(float{});
    case GgufType::kBool:
      use(load<uint8_t>(value.bytes.data() + index) != 0);
      return true;
    case GgufType::kU64:
      return element(uint64_t{});
    case GgufType::kI64:
      return element(int64_t{});
    case GgufType::kF64:
      return element(double{});
    case GgufType::kString:
    case GgufType::kArray:
      return false;
  }
  return false;
}

std::optional<int64_t> integer_at(const GgufValue& value, int64_t index) {
  std::optional<int64_t> result;
  visit_element(value, index, [&](auto element) {
    if constexpr (std::is_same_v<decltype(element), bool>) {
      result = element ? 1 : 0;
    } else if constexpr (std::is_integral_v<decltype(element)>) {
      if (std::in_range<int64_t>(element)) result = static_cast<int64_t>(element);
    }
  });
  return result;
}

std::optional<double> number_at(const GgufValue& value, int64_t index) {
  std::optional<double> result;
  if (value.type == GgufType::kBool) return result;
  visit_element(value, index, [&](auto element) { result = static_cast<double>(element); });
  return result;
}

[[noreturn]] void mismatch(const std::string& file, std::string_view key, std::string_view expected) {
  throw Error(format("{}: key \"{}\" must be {}", file, printable(key), expected));
}

}  // namespace

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto at = metadata_.find(key);
  return at == metadata_.end() ? nullptr : &at->second;
}

std::optional<int64_t> GgufFile::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  std::optional<int64_t> result;
  if (!value->is_array && value->type != GgufType::kBool) result = integer_at(*value, 0);
  if (!result) mismatch(name_, key, "a whole number of at most 63 bits");
  return result;
}

std::optional<double> GgufFile::number(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  std::optional<double> result;
  if (!value->is_array) result = number_at(*value, 0);
  if (!result) mismatch(name_, key, "a number");
  return result;
}

std::optional<bool> GgufFile::boolean(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (value->is_array || value->type != GgufType::kBool) mismatch(name_, key, "a bool");
  return load<uint8_t>(value->bytes.data()) != 0;
}

std::optional<std::string_view> GgufFile::string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (value->is_array || value->type != GgufType::kString) mismatch(name_, key, "a string");
  return std::string_view(reinterpret_cast<const char*>(value->bytes.data()) + 8, value->bytes.size() - 8);
}

std::vector<std::string_view> GgufFile::strings(std::string_view key) const {
  std::vector<std::string_view> result;
  const GgufValue* value = find(key);
  if (!value) return result;
  if (!value->is_array || value->type != GgufType::kString) mismatch(name_, key, "an array of strings");
  result.reserve(static_cast<size_t>(value->count));
  const std::byte* at = value->bytes.data();
  for (int64_t i = 0; i < value->count; ++i) {
    const auto length = load<uint64_t>(at);
    result.emplace_back(reinterpret_cast<const char*>(at) + 8, length);
    at += 8 + length;
  }
  return result;
}

std::vector<double> GgufFile::numbers(std::string_view key) const {
  std::vector<double> result;
  const GgufValue* value = find(key);
  if (!value) return result;
  if (!value->is_array) mismatch(name_, key, "an array of numbers");
  result.reserve(static_cast<size_t>(value->count));
  for (int64_t i = 0; i < value->count; ++i) {
    const auto element = number_at(*value, i);
    if (!element) mismatch(name_, key, "an array of numbers");
    result.push_back(*element);
  }
  return result;
}

std::vector<int64_t> GgufFile::integers(std::string_view key) const {
  std::vector<int64_t> result;
  const GgufValue* value = find(key);
  if (!value) return result;
  if (!value->is_array) mismatch(name_, key, "an array of whole numbers");
  result.reserve(static_cast<size_t>(value->count));
  for (int64_t i = 0; i < value->count; ++i) {
    const auto element = integer_at(*value, i);
    if (!element) mismatch(name_, key, "an array of whole numbers");
    result.push_back(*element);
  }
  return result;
}

}  // namespace cheetah
