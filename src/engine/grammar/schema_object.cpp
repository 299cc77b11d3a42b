// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/configurations.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/schema_compiler.h"

namespace cheetah {
namespace {

std::vector<std::string> required_names(const OrderedJson& schema, const SchemaPlace& place) {
  std::vector<std::string> names;
  const auto list = schema.find("required");
  if (list == schema.end()) return names;
  if (!list->is_array()) place.at("required").fail("expected a list of names");
  for (const OrderedJson& name : *list) {
    if (!name.is_string()) place.at("required").fail("expected a list of names");
    names.push_back(name.get<std::string>());
  }
  return names;
}

bool regex_finds(const std::string& regex, const std::string& text, CompileBudget& budget) {
  GrammarTree tree(budget);
  const RuleId root = tree.declare_rule("pattern");
  tree.define_rule(root, parse_regex(regex, tree, {.in_json_string = false, .search = true}));
  tree.set_root(root);
  const Automaton automaton = build_automaton(tree, budget, false);
  Configurations configurations(automaton);
  ConfigId at = configurations.start();
  for (const char byte : text) {
    if (at == ConfigId::kDead) return false;
    at = configurations.after(at, static_cast<uint8_t>(byte));
  }
  return at != ConfigId::kDead && configurations.complete(at);
}

}  // namespace

ExprId SchemaCompiler::member(const std::string& name, const OrderedJson& value, const SchemaPlace& place) {
  return tree_.sequence({tree_.literal(json_quoted(name)), json_.colon(), compile(value, place)});
}

ExprId SchemaCompiler::compile_object(const OrderedJson& schema, const SchemaPlace& place) {
  static const OrderedJson kNone = OrderedJson::object();
  const OrderedJson& properties = schema.contains("properties") ? schema["properties"] : kNone;
  if (!properties.is_object()) place.at("properties").fail("expected an object of schemas");
  std::vector<std::string> required = required_names(schema, place), names;
  MemberList list;
  list.separator = json_.comma();
  for (const auto& [name, value] : properties.items()) {
    const auto is_required = std::find(required.begin(), required.end(), name) != required.end();
    list.members.push_back({member(name, value, place.at("properties").inside(name)), is_required});
    names.push_back(name);
  }
  for (size_t i = 0; i < required.size(); ++i) {
    if (std::find(names.begin(), names.end(), required[i]) != names.end()) continue;
    const OrderedJson rest = schema.value("additionalProperties", OrderedJson(true));
    if (rest == false || schema.contains("patternProperties"))
      place.at("required")
          .at(std::to_string(i))
          .fail("schema can never be satisfied: the member is not declared");
    list.members.push_back({member(required[i], rest, place.inside("additionalProperties")), true});
    names.push_back(required[i]);
  }
  add_extra_members(schema, names, place, list);
  list.min = count(schema, "minProperties", 0, place);
  list.max = count(schema, "maxProperties", kUnbounded, place);
  if (list.max != kUnbounded && list.min > list.max)
    place.at("minProperties").fail("schema can never be satisfied: minProperties is above maxProperties");
  // Two undeclared members may turn out to have the same key, which is one member.
  if (list.extra && list.min > static_cast<int64_t>(list.members.size()) + 1)
    place.at("minProperties").unsupported("more than one member beyond the declared ones");
  if (list.extra && list.min > 1 && list.min > static_cast<int64_t>(required.size()) + 1) list.extra.reset();
  if (!list.extra && list.max == kUnbounded && list.min <= static_cast<int64_t>(required.size()))
    list.min = 0;
  if (!list.extra && list.max >= static_cast<int64_t>(list.members.size())) list.max = kUnbounded;
  return tree_.sequence(
      {tree_.literal("{"), json_.space(), tree_.members(std::move(list)), json_.space(), tree_.literal("}")});
}

void SchemaCompiler::add_extra_members(const OrderedJson& schema, const std::vector<std::string>& names,
    const SchemaPlace& place, MemberList& list) {
  if (const auto patterns = schema.find("patternProperties"); patterns != schema.end())
    return add_pattern_members(*patterns, names, place.at("patternProperties"), list);
  const auto rest = schema.find("additionalProperties");
  const bool closed = schema.contains("properties") || schema.contains("required") ||
                      schema.value("unevaluatedProperties", OrderedJson(true)) == false;
  if (rest == schema.end() ? closed : *rest == false) return;
  const OrderedJson value = rest == schema.end() ? OrderedJson(true) : *rest;
  list.extra = tree_.sequence(
      {json_.other_key(names), json_.colon(), compile(value, place.inside("additionalProperties"))});
}

// Undeclared members are only those a pattern describes.
void SchemaCompiler::add_pattern_members(const OrderedJson& patterns, const std::vector<std::string>& names,
    const SchemaPlace& place, MemberList& list) {
  if (!patterns.is_object()) place.fail("expected an object of schemas");
  std::vector<ExprId> ways;
  for (const auto& [pattern, value] : patterns.items()) {
    const SchemaPlace here = place.inside(pattern);
    if (value != patterns.front()) here.unsupported("several patterns with different schemas may overlap");
    for (const std::string& name : names)
      if (regex_finds(pattern, name, tree_.budget()))
        here.unsupported(format("the pattern also matches the declared member \"{}\"", printable(name)));
    const ExprId key = parse_regex(pattern, tree_, {.in_json_string = true, .search = true});
    ways.push_back(tree_.sequence({json_.quoted(key), json_.colon(), compile(value, here)}));
  }
  if (!ways.empty()) list.extra = tree_.choice(std::move(ways));
}

}  // namespace cheetah
