// SPDX-License-Identifier: MIT
#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/error.h"
#include "engine/grammar/schema_compiler.h"

namespace cheetah {
namespace {

constexpr size_t kMaxAlternatives = 500;

// JSON-pointer tokens of the fragment after '#', with %XX decoded.
std::vector<std::string> pointer_tokens(std::string_view fragment, const SchemaPlace& place) {
  std::string text;
  for (size_t i = 0; i < fragment.size(); ++i) {
    unsigned byte = 0;
    const char* hex = fragment.data() + i + 1;
    if (fragment[i] == '%' && i + 2 < fragment.size() &&
        std::from_chars(hex, hex + 2, byte, 16).ptr == hex + 2) {
      text.push_back(static_cast<char>(byte));
      i += 2;
    } else {
      text.push_back(fragment[i]);
    }
  }
  std::vector<std::string> tokens;
  if (text.empty()) return tokens;
  if (text[0] != '/') place.fail("expected a reference of the form #/$defs/name");
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '/') {
      tokens.emplace_back();
    } else if (text[i] == '~' && i + 1 < text.size() && (text[i + 1] == '0' || text[i + 1] == '1')) {
      tokens.back().push_back(text[++i] == '0' ? '~' : '/');
    } else {
      tokens.back().push_back(text[i]);
    }
  }
  return tokens;
}

OrderedJson all_of(const OrderedJson& a, const OrderedJson& b) {
  if (a == b) return a;
  return OrderedJson{{"allOf", OrderedJson::array({a, b})}};
}

// {"const": x} as {"enum": [x]}, nullable as one more type: one form to merge.
void simplify(OrderedJson& schema, const SchemaPlace& place) {
  if (const auto value = schema.find("const"); value != schema.end()) {
    const OrderedJson only = OrderedJson::array({*value});
    schema.erase("const");
    schema["enum"] = only;
  }
  if (schema.contains("nullable")) {
    if (schema.contains("type")) {
      const std::vector<std::string> types = types_of(schema, place);
      schema["type"] = types;
    }
    schema.erase("nullable");
  }
}

OrderedJson shared_types(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  OrderedJson shared = OrderedJson::array();
  const auto has = [](const std::vector<std::string>& list, const std::string& type) {
    return std::find(list.begin(), list.end(), type) != list.end();
  };
  for (const std::string& type : a) {
    if (has(b, type))
      shared.push_back(type);
    else if (type == "integer" && has(b, "number"))
      shared.push_back(type);
    else if (type == "number" && has(b, "integer"))
      shared.push_back("integer");
  }
  return shared;
}

bool is_one_of(const std::string& keyword, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return keyword == name; });
}

}  // namespace

const OrderedJson& SchemaMerger::resolve(const std::string& reference, const SchemaPlace& place) {
  if (++references_ > budget_.limits().max_references)
    place.fail(
        "grammar_too_complex: more than " + std::to_string(budget_.limits().max_references) + " references");
  if (reference.empty() || reference[0] != '#')
    place.fail(
        "only references within the schema (#/…) are followed, found \"" + printable(reference) + "\"");
  const OrderedJson* at = &document_;
  for (const std::string& token : pointer_tokens(std::string_view(reference).substr(1), place)) {
    const OrderedJson* next = nullptr;
    if (at->is_object() && at->contains(token)) next = &(*at)[token];
    size_t index = 0;
    if (at->is_array() &&
        std::from_chars(token.data(), token.data() + token.size(), index).ptr ==
            token.data() + token.size() &&
        !token.empty() && index < at->size())
      next = &(*at)[index];
    if (!next) place.fail("the reference \"" + printable(reference) + "\" leads nowhere");
    at = next;
  }
  return *at;
}

OrderedJson SchemaMerger::flatten(const OrderedJson& schema, const SchemaPlace& place) {
  budget_.step(100);
  if (place.depth > budget_.limits().max_schema_depth)
    place.fail("grammar_too_complex: nesting of more than " +
               std::to_string(budget_.limits().max_schema_depth) + " schemas");
  if (schema.is_boolean()) return schema;
  if (!schema.is_object()) place.fail("expected a schema (an object, true or false)");
  check_keywords(schema, place);
  OrderedJson flat = OrderedJson::object();
  for (const auto& [keyword, value] : schema.items())
    if (!is_annotation(keyword) && keyword != "$ref" && keyword != "allOf") flat[keyword] = value;
  simplify(flat, place);
  if (const auto reference = schema.find("$ref"); reference != schema.end()) {
    if (!reference->is_string()) place.at("$ref").fail("expected a string");
    const SchemaPlace there = place.inside("$ref");
    flat = merge(flatten(resolve(reference->get<std::string>(), there), there), flat, place);
  }
  if (const auto parts = schema.find("allOf"); parts != schema.end()) {
    if (!parts->is_array() || parts->empty()) place.at("allOf").fail("expected a list of schemas");
    for (size_t i = 0; i < parts->size(); ++i) {
      const SchemaPlace there = place.at("allOf").inside(std::to_string(i));
      flat = merge(flat, flatten((*parts)[i], there), there);
    }
  }
  return flat;
}

OrderedJson SchemaMerger::merge(const OrderedJson& a, const OrderedJson& b, const SchemaPlace& place) {
  if (a == false || b == false) return false;
  if (a == true || a.empty()) return b;
  if (b == true || b.empty()) return a;
  budget_.step(static_cast<int64_t>(a.size() + b.size()));
  OrderedJson merged = a, other = b;
  merge_properties(merged, other);
  for (const auto& [keyword, value] : other.items()) {
    budget_.allocate(64);
    if (!merged.contains(keyword))
      merged[keyword] = value;
    else if (merged[keyword] != value)
      merge_keyword(merged, keyword, value, place);
    if (merged == false) return merged;
  }
  return merged;
}

// What one side says of undeclared members also binds those that only the other side declares.
void SchemaMerger::merge_properties(OrderedJson& a, OrderedJson& b) const {
  const auto bind = [](const OrderedJson& closed, OrderedJson& open) {
    if (!closed.contains("additionalProperties") || !open.contains("properties")) return;
    const OrderedJson& rest = closed["additionalProperties"];
    for (auto& [name, schema] : open["properties"].items()) {
      const bool declared = closed.contains("properties") && closed["properties"].contains(name);
      if (!declared) schema = rest == false ? OrderedJson(false) : all_of(schema, rest);
    }
  };
  const OrderedJson a_before = a;
  bind(b, a);
  bind(a_before, b);
}

void SchemaMerger::merge_keyword(
    OrderedJson& into, const std::string& keyword, const OrderedJson& value, const SchemaPlace& place) {
  OrderedJson& mine = into[keyword];
  if (keyword == "type") {
    mine = shared_types(types_of(into, place), types_of(OrderedJson{{"type", value}}, place));
  } else if (mine.is_array() && value.is_array() && merge_lists(mine, keyword, value, place)) {
    // merge_lists has combined them.
  } else if (keyword == "properties" && mine.is_object() && value.is_object()) {
    for (const auto& [name, schema] : value.items())
      mine[name] = mine.contains(name) ? all_of(mine[name], schema) : schema;
  } else if (is_one_of(keyword, {"additionalProperties", "items", "additionalItems"})) {
    mine = mine == false || value == false ? OrderedJson(false) : all_of(mine, value);
  } else if (mine.is_number() && value.is_number() && keyword != "multipleOf") {
    const bool is_lower =
        is_one_of(keyword, {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"});
    if (is_lower ? value > mine : value < mine) mine = value;
  } else if (is_one_of(keyword, {"uniqueItems", "unevaluatedProperties", "unevaluatedItems"})) {
    mine = keyword == "uniqueItems";
  } else {
    place.at(keyword).unsupported("cannot be combined with another value of the same keyword");
  }
  if (is_one_of(keyword, {"type", "enum"}) && mine.empty()) into = false;
}

// False for a keyword whose lists cannot be combined.
bool SchemaMerger::merge_lists(
    OrderedJson& mine, const std::string& keyword, const OrderedJson& value, const SchemaPlace& place) {
  budget_.step(static_cast<int64_t>(mine.size() * value.size()));
  const auto holds = [](const OrderedJson& list, const OrderedJson& entry) {
    return std::find(list.begin(), list.end(), entry) != list.end();
  };
  OrderedJson merged = OrderedJson::array();
  if (keyword == "enum") {
    for (const OrderedJson& entry : mine)
      if (holds(value, entry)) merged.push_back(entry);
  } else if (keyword == "required") {
    merged = mine;
    for (const OrderedJson& name : value)
      if (!holds(merged, name)) merged.push_back(name);
  } else if (is_one_of(keyword, {"anyOf", "oneOf"})) {
    if (mine.size() * value.size() > kMaxAlternatives)
      place.at(keyword).fail("grammar_too_complex: too many alternatives");
    for (const OrderedJson& a : mine)
      for (const OrderedJson& b : value) merged.push_back(all_of(a, b));
  } else {
    return false;
  }
  mine = std::move(merged);
  return true;
}

bool SchemaMerger::exclusive(const OrderedJson& a_schema, const OrderedJson& b_schema,
    const SchemaPlace& place, std::vector<std::string>& telling) {
  const OrderedJson a = flatten(a_schema, place), b = flatten(b_schema, place);
  if (a == false || b == false) return true;
  if (a.is_boolean() || b.is_boolean()) return false;
  budget_.step(10);
  if (a.contains("enum") && b.contains("enum")) {
    budget_.step(static_cast<int64_t>(a["enum"].size() * b["enum"].size()));
    return std::none_of(a["enum"].begin(), a["enum"].end(), [&](const OrderedJson& value) {
      return std::find(b["enum"].begin(), b["enum"].end(), value) != b["enum"].end();
    });
  }
  const std::vector<std::string> a_types = types_of(a, place), b_types = types_of(b, place);
  if (a.contains("type") && b.contains("type") && shared_types(a_types, b_types).empty()) return true;
  // What fits both is an object only if one of them says so; then a member that differs is enough.
  const OrderedJson object = OrderedJson("object");
  if (a.value("type", OrderedJson()) != object && b.value("type", OrderedJson()) != object) return false;
  if (!a.contains("properties") || !b.contains("properties")) return false;
  if (!a["properties"].is_object() || !b["properties"].is_object()) return false;
  for (const auto& [name, schema] : a["properties"].items()) {
    std::vector<std::string> deeper;
    if (!b["properties"].contains(name)) continue;
    const SchemaPlace there = place.inside(name);
    const OrderedJson mine = flatten(schema, there), other = flatten(b["properties"][name], there);
    const bool plain = mine.is_object() && other.is_object() &&
                       (mine.contains("enum") || mine.contains("type")) && !mine.contains("properties");
    if (plain && exclusive(mine, other, there, deeper)) {
      telling.push_back(name);
      return true;
    }
  }
  return false;
}

}  // namespace cheetah
