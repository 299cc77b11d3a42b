// SPDX-License-Identifier: MIT
#include "engine/grammar/schema.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "engine/grammar/schema_compiler.h"

namespace cheetah {
namespace {

constexpr size_t kMaxAlternatives = 500;
constexpr size_t kMaxMembers = 4096;  // ordered objects are searched linearly

void check_member_counts(const Json& value) {
  if (value.is_object() && value.size() > kMaxMembers)
    throw Error(
        format("grammar_too_complex: an object of the schema has {} members, more than the limit of {}",
            value.size(), kMaxMembers));
  if (value.is_structured())
    for (const Json& child : value) check_member_counts(child);
}

bool shapes(std::string_view keyword) { return !is_annotation(keyword); }

}  // namespace

ExprId SchemaCompiler::compile_document() {
  const ExprId root = compile(document_, {});
  while (!waiting_.empty()) {
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    tree_.define_rule(next.rule, compile(*next.schema, next.place));
  }
  return root;
}

ExprId SchemaCompiler::compile_reference(const std::string& reference, const SchemaPlace& place) {
  const OrderedJson& target = merger_.resolve(reference, place);
  const auto known = rules_.find(&target);
  if (known != rules_.end()) return tree_.rule(known->second);
  const RuleId rule = tree_.declare_rule(reference);
  rules_.emplace(&target, rule);
  waiting_.push_back({rule, &target, {reference.substr(1), 0}});
  return tree_.rule(rule);
}

ExprId SchemaCompiler::compile(const OrderedJson& schema, const SchemaPlace& place) {
  tree_.budget().step();
  if (place.depth > tree_.budget().limits().max_schema_depth)
    place.fail(format(
        "grammar_too_complex: nesting of more than {} schemas", tree_.budget().limits().max_schema_depth));
  if (schema.is_boolean()) return schema == true ? json_.any_value() : tree_.never();
  if (!schema.is_object()) place.fail("expected a schema (an object, true or false)");
  int64_t shaping = 0;
  for (const auto& [keyword, value] : schema.items()) shaping += shapes(keyword) ? 1 : 0;
  const auto reference = schema.find("$ref");
  if (reference != schema.end() && shaping == 1 && reference->is_string())
    return compile_reference(reference->get<std::string>(), place.at("$ref"));
  const OrderedJson flat = merger_.flatten(schema, place);
  if (flat.is_boolean()) return compile(flat, place);
  for (const char* keyword : {"anyOf", "oneOf"})
    if (flat.contains(keyword)) return compile_alternatives(flat, keyword, place);
  if (flat.contains("enum")) return compile_enum(flat, place);
  if (flat.empty()) return json_.any_value();
  std::vector<ExprId> ways;
  for (const std::string& type : types_of(flat, place)) ways.push_back(compile_type(flat, type, place));
  return tree_.choice(std::move(ways));
}

ExprId SchemaCompiler::compile_alternatives(
    const OrderedJson& flat, const std::string& keyword, const SchemaPlace& place) {
  const SchemaPlace here = place.at(keyword);
  const OrderedJson& list = flat[keyword];
  if (!list.is_array() || list.empty()) here.fail("expected a list of schemas");
  if (list.size() > kMaxAlternatives)
    here.fail(format(
        "grammar_too_complex: {} alternatives, more than the limit of {}", list.size(), kMaxAlternatives));
  OrderedJson beside = flat;
  beside.erase(keyword);
  std::vector<OrderedJson> alternatives(list.begin(), list.end());
  if (keyword == "oneOf") check_exclusive(alternatives, here);
  std::vector<ExprId> ways;
  for (size_t i = 0; i < alternatives.size(); ++i) {
    const SchemaPlace there = here.inside(std::to_string(i));
    if (beside.empty())
      ways.push_back(compile(alternatives[i], there));
    else
      ways.push_back(compile(merger_.merge(beside, merger_.flatten(alternatives[i], there), there), there));
  }
  return tree_.choice(std::move(ways));
}

void SchemaCompiler::check_exclusive(std::vector<OrderedJson>& alternatives, const SchemaPlace& place) {
  std::vector<std::vector<std::string>> telling(alternatives.size());
  for (size_t i = 0; i < alternatives.size(); ++i)
    for (size_t j = i + 1; j < alternatives.size(); ++j) {
      std::vector<std::string> names;
      const SchemaPlace there = place.inside(std::to_string(i));
      if (!merger_.exclusive(alternatives[i], alternatives[j], there, names))
        place.unsupported(
            format("alternatives {} and {} may both fit a value; use anyOf if that is meant", i, j));
      telling[i].insert(telling[i].end(), names.begin(), names.end());
      telling[j].insert(telling[j].end(), names.begin(), names.end());
    }
  for (size_t i = 0; i < alternatives.size(); ++i) {
    if (telling[i].empty()) continue;
    std::sort(telling[i].begin(), telling[i].end());
    telling[i].erase(std::unique(telling[i].begin(), telling[i].end()), telling[i].end());
    alternatives[i] = OrderedJson{{"allOf", {alternatives[i], {{"required", telling[i]}}}}};
  }
}

ExprId SchemaCompiler::compile_enum(const OrderedJson& schema, const SchemaPlace& place) {
  const OrderedJson& values = schema["enum"];
  if (!values.is_array()) place.at("enum").fail("expected a list of values");
  const int64_t limit = tree_.budget().limits().max_enum_values;
  if (static_cast<int64_t>(values.size()) > limit)
    place.at("enum").fail(
        format("grammar_too_complex: {} values, more than the limit of {}", values.size(), limit));
  for (const auto& [keyword, value] : schema.items())
    if (keyword != "enum" && keyword != "type")
      place.at(keyword).unsupported("cannot stand beside enum or const");
  std::vector<std::string> types;
  if (schema.contains("type")) types = types_of(schema, place);
  const auto allowed = [&](const OrderedJson& value) {
    const auto has = [&](const char* type) {
      return std::find(types.begin(), types.end(), type) != types.end();
    };
    if (types.empty() || has(value.type_name())) return true;
    return value.is_number_integer() && has("integer");
  };
  std::vector<std::string> texts;
  for (const OrderedJson& value : values)
    if (allowed(value)) texts.push_back(value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace));
  if (texts.empty()) place.at("enum").fail("schema can never be satisfied: no value is left");
  return tree_.literals(std::move(texts));
}

ExprId SchemaCompiler::compile_type(
    const OrderedJson& schema, const std::string& type, const SchemaPlace& place) {
  if (type == "object") return compile_object(schema, place);
  if (type == "array") return compile_array(schema, place);
  if (type == "string") return compile_string(schema, place);
  if (type == "integer") return compile_integer(schema, place);
  if (type == "number") return compile_number(schema, place);
  if (type == "boolean") return tree_.literals({"true", "false"});
  return tree_.literal("null");
}

int64_t SchemaCompiler::count(
    const OrderedJson& schema, const char* keyword, int64_t fallback, const SchemaPlace& place) {
  const auto value = schema.find(keyword);
  if (value == schema.end()) return fallback;
  const double number = value->is_number() ? value->get<double>() : -1;
  if (number < 0 || number != static_cast<double>(static_cast<int64_t>(std::min(number, 1e15))))
    place.at(keyword).fail("expected a whole number that is not negative");
  const GrammarLimits& limits = tree_.budget().limits();
  const bool members = std::string_view(keyword).ends_with("Properties");
  const int64_t limit = members ? limits.max_properties : limits.max_repetition;
  if (number > static_cast<double>(limit))
    place.at(keyword).fail(format("grammar_too_complex: repetition: more than the limit of {}", limit));
  return static_cast<int64_t>(number);
}

ExprId compile_json_schema(std::string_view schema, GrammarTree& tree) {
  tree.budget().check_text(schema);
  check_member_counts(parse_json(schema, "schema",
      {.max_bytes = tree.budget().limits().max_text_bytes,
          .max_depth = 2 * tree.budget().limits().max_nesting}));
  const OrderedJson document = OrderedJson::parse(schema);
  return SchemaCompiler(document, tree).compile_document();
}

}  // namespace cheetah
