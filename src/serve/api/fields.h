// SPDX-License-Identifier: MIT
#pragma once
// Typed access to the fields of one object of a request. Remembers which names were asked for, so that at the
// end it can tell which fields are unknown.
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/body.h"

namespace cheetah {

// The message's range: open at the low end when `above_low`.
struct FieldRange {
  double low, high;
  bool above_low = false;
};

class Fields {
 public:
  // path: of the object in the body, "" for the body itself. The object must outlive this.
  Fields(const OrderedJson& object, std::string path);

  // nullptr: absent or null.
  const OrderedJson* find(std::string_view name);
  bool has(std::string_view name) { return find(name) != nullptr; }

  std::optional<int64_t> integer(std::string_view name, int64_t low, int64_t high);
  std::optional<double> number(std::string_view name, FieldRange range);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> string(std::string_view name, size_t max_bytes = 4096);
  const OrderedJson* object(std::string_view name);
  const OrderedJson* array(std::string_view name);
  std::string required_string(std::string_view name, size_t max_bytes = 4096);

  // Known hints, which may be followed or not.
  void ignore(std::initializer_list<std::string_view> names);
  // Known, and of no effect here: a warning, unless its value (as JSON) is one of those that ask for nothing.
  void no_effect(std::string_view name, std::initializer_list<std::string_view> harmless = {});
  std::string param(std::string_view name) const;  // messages[2].content
  [[noreturn]] void missing(std::string_view name) const;
  [[noreturn]] void wrong_type(
      std::string_view name, const OrderedJson& value, std::string_view expected) const;
  // Unknown names: errors when strict, else one warning each. Also what no_effect() found.
  void finish(bool strict, std::vector<std::string>& warnings) const;

 private:
  const OrderedJson& object_;
  std::string path_;
  std::vector<std::string_view> known_;
  std::vector<std::string> warnings_;
};

// The value as an integer in [low, high], whatever way it is written (1, 1.0); throws ApiFailure.
int64_t integer_of(const OrderedJson& value, const std::string& param, int64_t low, int64_t high);
// An id of the vocabulary; `param` names the place.
int32_t token_id_of(const OrderedJson& value, const std::string& param, int64_t vocab);

}  // namespace cheetah
