// SPDX-License-Identifier: MIT
#pragma once
// A small JSON Schema validator for tests and measurements, written without a look at the compiler: it takes
// a parsed value and follows the specification keyword by keyword.
#include <algorithm>
#include <cmath>
#include <regex>
#include <string>
#include <vector>

#include "base/json.h"

namespace cheetah {

class SchemaValidator {
 public:
  explicit SchemaValidator(const Json& document) : document_(document) {}
  bool valid(const Json& value) const { return valid(document_, value); }

 private:
  static int64_t characters(const std::string& text) {
    return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
  }
  static bool has_type(const Json& value, const std::string& type) {
    if (type == "integer") return value.is_number() && std::floor(value.get<double>()) == value.get<double>();
    return type == value.type_name();
  }
  bool valid(const Json& schema, const Json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    if (schema.value("nullable", false) && value.is_null()) return true;
    return valid_common(schema, value) && valid_combined(schema, value) && valid_number(schema, value) &&
           valid_string(schema, value) && valid_array(schema, value) && valid_object(schema, value);
  }
  bool valid_common(const Json& schema, const Json& value) const {
    if (schema.contains("type")) {
      const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
      if (std::none_of(types.begin(), types.end(), [&](const Json& t) { return has_type(value, t); }))
        return false;
    }
    if (schema.contains("const") && schema["const"] != value) return false;
    if (schema.contains("enum")) {
      const Json& values = schema["enum"];
      if (std::find(values.begin(), values.end(), value) == values.end()) return false;
    }
    return true;
  }
  bool valid_combined(const Json& schema, const Json& value) const {
    const auto fits = [&](const char* keyword) {
      return std::count_if(schema[keyword].begin(), schema[keyword].end(),
          [&](const Json& part) { return valid(part, value); });
    };
    if (schema.contains("$ref")) {
      const Json::json_pointer pointer(schema["$ref"].get<std::string>().substr(1));
      if (!valid(document_.at(pointer), value)) return false;
    }
    if (schema.contains("anyOf") && fits("anyOf") == 0) return false;
    if (schema.contains("oneOf") && fits("oneOf") != 1) return false;
    return !schema.contains("allOf") || fits("allOf") == static_cast<int64_t>(schema["allOf"].size());
  }
  bool valid_number(const Json& schema, const Json& value) const {
    if (!value.is_number()) return true;
    const double x = value;
    if (schema.contains("minimum") && x < schema["minimum"]) return false;
    if (schema.contains("maximum") && x > schema["maximum"]) return false;
    if (schema.contains("exclusiveMinimum") && x <= schema["exclusiveMinimum"]) return false;
    if (schema.contains("exclusiveMaximum") && x >= schema["exclusiveMaximum"]) return false;
    if (!schema.contains("multipleOf")) return true;
    const double quotient = x / schema["multipleOf"].get<double>();
    return std::abs(quotient - std::round(quotient)) <= 1e-9 * std::max(1.0, std::abs(quotient));
  }
  bool valid_string(const Json& schema, const Json& value) const {
    if (!value.is_string()) return true;
    const std::string text = value;
    if (characters(text) < schema.value("minLength", int64_t{0})) return false;
    if (schema.contains("maxLength") && characters(text) > schema["maxLength"]) return false;
    return !schema.contains("pattern") ||
           std::regex_search(text, std::regex(schema["pattern"].get<std::string>()));
  }
  bool valid_array(const Json& schema, const Json& value) const {
    if (!value.is_array()) return true;
    if (value.size() < schema.value("minItems", size_t{0})) return false;
    if (schema.contains("maxItems") && value.size() > schema["maxItems"]) return false;
    const size_t prefix = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    for (size_t i = 0; i < value.size(); ++i) {
      if (i < prefix && !valid(schema["prefixItems"][i], value[i])) return false;
      if (i >= prefix && schema.contains("items") && !valid(schema["items"], value[i])) return false;
    }
    return true;
  }
  bool valid_object(const Json& schema, const Json& value) const {
    if (!value.is_object()) return true;
    if (value.size() < schema.value("minProperties", size_t{0})) return false;
    if (schema.contains("maxProperties") && value.size() > schema["maxProperties"]) return false;
    if (schema.contains("required"))
      for (const Json& name : schema["required"])
        if (!value.contains(name.get<std::string>())) return false;
    for (const auto& [name, member] : value.items()) {
      bool described = false;
      if (schema.contains("properties") && schema["properties"].contains(name)) {
        described = true;
        if (!valid(schema["properties"][name], member)) return false;
      }
      if (schema.contains("patternProperties"))
        for (const auto& [pattern, part] : schema["patternProperties"].items())
          if (std::regex_search(name, std::regex(pattern))) {
            described = true;
            if (!valid(part, member)) return false;
          }
      if (!described && schema.contains("additionalProperties") &&
          !valid(schema["additionalProperties"], member))
        return false;
    }
    return true;
  }

  const Json& document_;
};

}  // namespace cheetah
