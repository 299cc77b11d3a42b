// SPDX-License-Identifier: MIT
// Grammars as text, so that another process can compile them.
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "engine/grammar/grammar.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxCalls = int64_t{1} << 30;

}  // namespace

GrammarSource source_of(const ToolCallFormat& format) {
  Json forms = Json::array();
  for (const ToolForm& form : format.forms)
    forms.push_back({{"prefix", form.prefix}, {"json_schema", form.json_schema}, {"suffix", form.suffix}});
  return {"tool_calls", dump_json({{"forms", std::move(forms)}, {"trigger", format.trigger},
                            {"more_triggers", format.more_triggers}, {"separator", format.separator},
                            {"min_calls", format.min_calls}, {"max_calls", format.max_calls}})};
}

ToolCallFormat tool_calls_of(const GrammarSource& source) {
  const Json json = parse_json(source.text, "tool calls");
  const JsonFields fields(json, "tool calls");
  ToolCallFormat format{.forms = {},
      .trigger = fields.string("trigger"),
      .more_triggers = {},
      .separator = fields.string("separator"),
      .min_calls = fields.integer("min_calls", 0, kMaxCalls),
      .max_calls = fields.integer("max_calls", kUnbounded, kMaxCalls)};
  if (const Json* more = fields.find("more_triggers"); more && more->is_array())
    for (const Json& trigger : *more)
      format.more_triggers.push_back(trigger.is_string() ? trigger.get<std::string>() : "");
  const Json* forms = fields.find("forms");
  if (!forms || !forms->is_array()) throw Error("tool calls: forms: expected an array");
  for (const Json& form : *forms) {
    const JsonFields parts(form, "tool calls: form");
    format.forms.push_back({parts.string("prefix"), parts.string("json_schema"), parts.string("suffix")});
  }
  return format;
}

GrammarProgram::Program GrammarProgram::from_source(
    const GrammarSource& source, Vocabulary vocabulary, const GrammarLimits& limits) {
  if (source.kind == "json_schema") return from_json_schema(source.text, std::move(vocabulary), limits);
  if (source.kind == "regex") return from_regex(source.text, std::move(vocabulary), limits);
  if (source.kind == "ebnf") return from_ebnf(source.text, std::move(vocabulary), limits);
  if (source.kind == "json_object") return any_json_object(std::move(vocabulary), limits);
  if (source.kind == "json_value") return any_json_value(std::move(vocabulary), limits);
  if (source.kind == "tool_calls")
    return from_tool_calls(tool_calls_of(source), std::move(vocabulary), limits);
  throw Error(format("grammar: '{}' is not a kind of grammar", source.kind));
}

}  // namespace cheetah
