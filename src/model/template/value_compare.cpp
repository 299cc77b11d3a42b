// SPDX-License-Identifier: MIT
// Python's truth, equality, order and hashing.
#include <algorithm>
#include <cmath>
#include <functional>

#include "base/format.h"
#include "model/template/value.h"

namespace cheetah::jinja {
namespace {

bool equal_sequences(const Sequence& a, const Sequence& b) {
  if (&a == &b) return true;
  if (a.flavor != b.flavor || a.flavor == Flavor::kGenerator || a.flavor == Flavor::kValues) return false;
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), equal);
}

bool equal_dicts(const Dict& a, const Dict& b) {
  if (&a == &b) return true;
  if (a.size() != b.size()) return false;
  return std::all_of(a.entries().begin(), a.entries().end(), [&](const Dict::Entry& entry) {
    const Value* other = b.find(entry.first);
    return other && equal(entry.second, *other);
  });
}

[[noreturn]] void no_order(const Value& a, const Value& b, const char* op) {
  fail(format("'{}' not supported between instances of '{}' and '{}'", op, type_name(a), type_name(b)));
}

size_t mix(size_t seed, size_t hash) {
  return seed ^ (hash + 0x9e3779b97f4a7c15u + (seed << 6) + (seed >> 2));
}

}  // namespace

bool truthy(const Value& value) {
  if (value.is_none() || value.is_undefined()) return false;
  if (value.is_integral()) return value.as_integer() != 0;
  if (value.is_float()) return value.as_double() != 0;
  if (value.is_string()) return !value.bytes().empty();
  if (value.is_generator()) return true;
  if (value.is_sequence()) return !value.items_of().items.empty();
  if (value.is_dict()) return value.dict_of().size() != 0;
  return true;
}

bool equal(const Value& a, const Value& b) {
  if (a.is_string() && b.is_string()) return a.bytes() == b.bytes();
  if (a.is_integral() && b.is_integral()) return a.as_integer() == b.as_integer();
  if (a.is_number() && b.is_number()) return a.as_double() == b.as_double();
  if (a.is_none() || b.is_none()) return a.is_none() && b.is_none();
  if (a.is_undefined() || b.is_undefined()) return a.is_undefined() && b.is_undefined();
  if (a.is_sequence() && b.is_sequence()) return equal_sequences(a.items_of(), b.items_of());
  if (a.is_dict() && b.is_dict()) return equal_dicts(a.dict_of(), b.dict_of());
  if (a.is_object() && b.is_object()) return &a.object_of() == &b.object_of();
  return false;
}

bool less(const Value& a, const Value& b, const char* op) {
  if (a.is_undefined()) fail(a.undefined_message());
  if (b.is_undefined()) fail(b.undefined_message());
  if (a.is_string() && b.is_string()) return a.bytes() < b.bytes();  // UTF-8 keeps the code point order
  if (a.is_integral() && b.is_integral()) return a.as_integer() < b.as_integer();
  if (a.is_number() && b.is_number()) return a.as_double() < b.as_double();
  const bool ordered = (a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple());
  if (!ordered) no_order(a, b, op);
  const std::vector<Value>& left = a.items_of().items;
  const std::vector<Value>& right = b.items_of().items;
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i)
    if (!equal(left[i], right[i])) return less(left[i], right[i], op);
  return left.size() < right.size();
}

size_t hash_of(const Value& value) {
  if (value.is_string()) return std::hash<std::string>{}(value.bytes());
  if (value.is_integral()) return std::hash<int64_t>{}(value.as_integer());
  if (value.is_float()) {
    const double number = value.as_double();
    const bool whole = std::floor(number) == number && std::abs(number) < 9e18;
    return whole ? std::hash<int64_t>{}(static_cast<int64_t>(number)) : std::hash<double>{}(number);
  }
  if (value.is_tuple()) {
    size_t hash = 1;
    for (const Value& item : value.items_of().items) hash = mix(hash, hash_of(item));
    return hash;
  }
  if (value.is_none()) return 7;
  if (value.is_undefined()) return 11;
  if (value.is_object()) return std::hash<const void*>{}(&value.object_of());
  fail(format("unhashable type: '{}'", type_name(value)));
}

}  // namespace cheetah::jinja
