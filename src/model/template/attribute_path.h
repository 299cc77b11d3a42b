// SPDX-License-Identifier: MIT
#pragma once
// "a.b.0" as filters take it: the attribute of an attribute of each item.
#include <string>
#include <vector>

#include "model/template/runtime.h"

namespace cheetah::jinja {

class AttributePath {
 public:
  explicit AttributePath(const Value* attribute);  // nullptr or none: the item itself
  Value get(Runtime& in, Value item, const Value* fallback = nullptr) const;

 private:
  std::vector<Value> parts_;
};

// Several paths, separated by commas.
std::vector<AttributePath> attribute_paths(const Value* attributes);

// Strings compare without case unless a filter is told otherwise.
Value ignore_case(const Value& value);

}  // namespace cheetah::jinja
