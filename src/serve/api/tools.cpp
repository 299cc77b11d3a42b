// SPDX-License-Identifier: MIT
#include "serve/api/tools.h"

#include <algorithm>
#include <cctype>

#include "base/error.h"
#include "base/format.h"
#include "serve/api/failure.h"

namespace cheetah {
namespace {

constexpr size_t kMaxTools = 128;

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-' || c == '.';
  });
}

ToolChoice named_choice(const std::string& name, const std::string& param, const ToolSet* tools) {
  if (!tools || !tools->find(name))
    refuse(
        "invalid_value", param, format("{} names \"{}\", which is not among tools", param, printable(name)));
  return {.mode = ToolMode::kRequired, .named = name};
}

ToolChoice choice_of(const OrderedJson& value, const ToolSet* tools) {
  if (value.is_object()) {
    Fields fields(value, "tool_choice");
    const std::string type = fields.required_string("type", 64);
    if (type == "function" || type == "tool") {
      const OrderedJson* function = fields.object("function");
      Fields inner(function ? *function : value, function ? "tool_choice.function" : "tool_choice");
      return named_choice(inner.required_string("name", 256), inner.param("name"), tools);
    }
    return choice_of(OrderedJson(type == "any" ? "required" : type), tools);
  }
  const std::string mode = value.is_string() ? value.get<std::string>() : "";
  if (mode == "none") return {};
  if (mode == "auto") return {.mode = tools ? ToolMode::kAuto : ToolMode::kNone, .named = {}};
  if (mode != "required")
    refuse("invalid_value", "tool_choice",
        format("tool_choice must be none, auto, required or name a function, got {}", shown(value)));
  if (!tools) refuse("invalid_value", "tool_choice", "tool_choice requires a tool but tools is empty");
  return {.mode = ToolMode::kRequired, .named = {}};
}

}  // namespace

const ToolUse* ToolSet::find(std::string_view name) const {
  const auto at = std::ranges::find(tools, name, &ToolUse::name);
  return at == tools.end() ? nullptr : &*at;
}

bool ToolSet::is_text(std::string_view tool, std::string_view argument) const {
  for (const OrderedJson& definition : definitions) {
    const OrderedJson& function = definition["function"];
    if (function["name"] != tool) continue;
    const auto parameters = function.find("parameters");
    if (parameters == function.end() || !parameters->contains("properties")) return true;
    const OrderedJson& properties = (*parameters)["properties"];
    const auto property = properties.find(argument);
    if (!properties.is_object() || property == properties.end() || !property->is_object()) return true;
    return !property->contains("type") || (*property)["type"] == "string";
  }
  return true;
}

void add_tool(ToolSet& set, Fields& function, const OrderedJson* parameters, std::string_view schema_field) {
  const std::string name = function.required_string("name", SIZE_MAX);
  if (!is_tool_name(name))
    refuse("invalid_value", function.param("name"),
        format("{} must match [a-zA-Z0-9_.-]{{1,64}}, got \"{}\"", function.param("name"), printable(name)));
  if (set.find(name))
    refuse("invalid_value", function.param("name"),
        format("{} \"{}\" stands twice in tools", function.param("name"), name));
  OrderedJson definition = {{"name", name}};
  if (const auto description = function.string("description", 64 << 10))
    definition["description"] = *description;
  if (parameters && !parameters->is_object())
    refuse("invalid_type", function.param(schema_field),
        format("{} must be a JSON schema object, got {}", function.param(schema_field), shown(*parameters)));
  if (parameters) definition["parameters"] = *parameters;
  const bool strict = function.boolean("strict").value_or(false);
  set.tools.push_back({name, parameters && !parameters->empty() ? dump_ordered(*parameters) : "", strict});
  set.definitions.push_back({{"type", "function"}, {"function", std::move(definition)}});
}

const OrderedJson* tool_list(Fields& fields) {
  const OrderedJson* list = fields.find("tools");
  if (list && !list->is_array())
    refuse("invalid_value", "tools", format("tools must be an array, got {}", shown(*list)));
  if (!list || list->empty()) return nullptr;
  if (list->size() > kMaxTools)
    refuse("invalid_value", "tools",
        format("tools has {} items, more than the limit of {}", list->size(), kMaxTools));
  return list;
}

std::shared_ptr<const ToolSet> read_tools(Fields& fields) {
  const OrderedJson* list = tool_list(fields);
  if (!list) return nullptr;
  auto set = std::make_shared<ToolSet>();
  for (size_t i = 0; i < list->size(); ++i) {
    Fields tool((*list)[i], format("tools[{}]", i));
    const std::string type = tool.required_string("type", 64);
    if (type != "function")
      refuse("invalid_value", tool.param("type"),
          format("{} must be function, got \"{}\"", tool.param("type"), printable(type)));
    const OrderedJson* inner = tool.object("function");
    if (!inner) tool.missing("function");
    Fields function(*inner, tool.param("function"));
    add_tool(*set, function, function.find("parameters"), "parameters");
  }
  return set;
}

std::shared_ptr<const ToolSet> read_flat_tools(Fields& fields, std::vector<std::string>& warnings) {
  const OrderedJson* list = tool_list(fields);
  if (!list) return nullptr;
  auto set = std::make_shared<ToolSet>();
  for (size_t i = 0; i < list->size(); ++i) {
    Fields tool((*list)[i], format("tools[{}]", i));
    const std::string type = tool.required_string("type", 64);
    if (type == "function")
      add_tool(*set, tool, tool.find("parameters"), "parameters");
    else
      warnings.push_back(
          format("tools[{}] of type {} is not offered here and was left out", i, printable(type)));
  }
  return set->tools.empty() ? nullptr : set;
}

ToolChoice read_tool_choice(Fields& fields, const ToolSet* tools) {
  ToolChoice choice{.mode = tools ? ToolMode::kAuto : ToolMode::kNone, .named = {}};
  if (const OrderedJson* value = fields.find("tool_choice")) choice = choice_of(*value, tools);
  choice.parallel = fields.boolean("parallel_tool_calls").value_or(true);
  return choice;
}

}  // namespace cheetah
