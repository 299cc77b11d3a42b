// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace cheetah {

using Json = nlohmann::json;

struct JsonLimits {
  int64_t max_bytes = int64_t{128} << 20;
  int max_depth = 64;
};

// Parses text (of the file or field called `what`) within limits. Throws Error naming `what` and the byte on
// bad syntax, bad UTF-8, too much depth or size, and a key that appears twice in one object.
Json parse_json(std::string_view text, std::string_view what, const JsonLimits& limits = {});

// Reads the whole file and parses it.
Json read_json_file(const std::string& path, const JsonLimits& limits = {});

// Serializes any value: bytes that are not UTF-8 become U+FFFD instead of an exception.
std::string dump_json(const Json& value, int indent = -1);

// Typed access to the fields of one object, with errors that name the file, the field and what was expected.
class JsonFields {
 public:
  JsonFields(const Json& object, std::string what);

  const Json* find(std::string_view name) const;  // nullptr: absent or null
  bool has(std::string_view name) const { return find(name) != nullptr; }

  int64_t integer(std::string_view name, int64_t low, int64_t high) const;
  int64_t integer_or(std::string_view name, int64_t fallback, int64_t low, int64_t high) const;
  double number(std::string_view name) const;  // finite
  double number_or(std::string_view name, double fallback) const;
  bool boolean_or(std::string_view name, bool fallback) const;
  std::string string(std::string_view name) const;
  std::string string_or(std::string_view name, std::string fallback) const;

  const std::string& what() const { return what_; }

 private:
  const Json& required(std::string_view name) const;
  [[noreturn]] void mismatch(std::string_view name, const Json& value, std::string_view expected) const;
  const Json& object_;
  std::string what_;
};

}  // namespace cheetah
