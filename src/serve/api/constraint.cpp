// SPDX-License-Identifier: MIT
#include "serve/api/constraint.h"

#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/grammar_cache.h"
#include "serve/api/failure.h"
#include "serve/api/structural_tag.h"

namespace cheetah {
namespace {

using Program = std::shared_ptr<const GrammarProgram>;

constexpr size_t kMaxGrammarBytes = 256 << 10;

// A regex that matches exactly the given texts.
std::string choice_regex(const OrderedJson& choices, const std::string& param) {
  if (choices.empty()) refuse("invalid_value", param, format("{} must not be empty", param));
  std::string regex;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (!choices[i].is_string())
      refuse("invalid_type", format("{}[{}]", param, i), format("{}[{}] must be a string", param, i));
    if (i > 0) regex += '|';
    for (const char c : choices[i].get_ref<const std::string&>()) {
      if (std::string_view("\\^$.|?*+()[]{}/-").find(c) != std::string_view::npos) regex += '\\';
      regex += c;
    }
  }
  return format("({})", regex);
}

// One source of a grammar: the names under which clients send it.
struct Sources {
  std::string_view json, regex, choice, grammar, json_object, structural_tag;
};
constexpr Sources kGuided = {"guided_json", "guided_regex", "guided_choice", "guided_grammar", {}, {}};
constexpr Sources kStructured = {"json", "regex", "choice", "grammar", "json_object", "structural_tag"};

OrderedJson schema_value(Fields& fields, std::string_view name, const OrderedJson& value) {
  if (!value.is_string()) return value;
  OrderedJson parsed = OrderedJson::parse(value.get_ref<const std::string&>(), nullptr, false);
  if (parsed.is_discarded()) fields.wrong_type(name, value, "a JSON schema");
  return parsed;
}

class ConstraintReader {
 public:
  explicit ConstraintReader(const ApiServices& services) : services_(services) {}

  void take(const std::string& param, Program program) {
    if (!program) return;
    if (program_)
      refuse("conflicting_parameters", param,
          format("{} and {} both constrain the answer; send one of them", first_, param));
    program_ = std::move(program);
    first_ = param;
  }

  void read(Fields& fields, const Sources& names) {
    GrammarCache& grammars = services_.grammars;
    if (const OrderedJson* schema = fields.find(names.json))
      take(fields.param(names.json),
          schema_constraint(schema_value(fields, names.json, *schema), fields.param(names.json), services_));
    if (const auto regex = fields.string(names.regex, kMaxGrammarBytes))
      take(fields.param(names.regex),
          compiled(fields.param(names.regex), [&] { return grammars.regex(*regex); }));
    if (const OrderedJson* choices = fields.array(names.choice)) {
      const std::string param = fields.param(names.choice);
      const std::string regex = choice_regex(*choices, param);
      take(param, compiled(param, [&] { return grammars.regex(regex); }));
    }
    if (const auto text = fields.string(names.grammar, kMaxGrammarBytes))
      take(fields.param(names.grammar),
          compiled(fields.param(names.grammar), [&] { return grammars.ebnf(*text); }));
    if (!names.structural_tag.empty())
      if (const OrderedJson* tag = fields.find(names.structural_tag))
        take(fields.param(names.structural_tag),
            structural_tag_constraint(schema_value(fields, names.structural_tag, *tag),
                fields.param(names.structural_tag), services_));
    if (!names.json_object.empty() && fields.boolean(names.json_object).value_or(false))
      take(fields.param(names.json_object),
          compiled(fields.param(names.json_object), [&] { return grammars.json_object(); }));
  }

  Program result() { return std::move(program_); }

 private:
  const ApiServices& services_;
  Program program_;
  std::string first_;
};

}  // namespace

Program compiled(const std::string& param, const std::function<Program()>& compile) {
  try {
    return compile();
  } catch (const Error& error) {
    const std::string_view what = error.what();
    const bool complex = what.find("too_complex") != std::string_view::npos;
    refuse(complex ? "grammar_too_complex" : "invalid_grammar", param,
        format("{}: {}", param, printable(what, 300)));
  }
}

Program schema_constraint(const OrderedJson& schema, const std::string& param, const ApiServices& services) {
  if (!schema.is_object() && !schema.is_boolean())
    refuse("invalid_type", param, format("{} must be a JSON schema object, got {}", param, shown(schema)));
  const std::string text = dump_ordered(schema);
  return compiled(param, [&] { return services.grammars.json_schema(text); });
}

Program format_constraint(const OrderedJson& wanted, const std::string& path, const ApiServices& services) {
  Fields fields(wanted, path);
  const std::string type = fields.required_string("type", 64);
  if (type == "text") return nullptr;
  if (type == "structural_tag") return structural_tag_constraint(wanted, path, services);
  if (type == "json_object") {
    if (const OrderedJson* schema = fields.find("schema"))
      return schema_constraint(*schema, fields.param("schema"), services);
    return compiled(path, [&] { return services.grammars.json_object(); });
  }
  if (type != "json_schema")
    refuse("invalid_value", fields.param("type"),
        format("{} must be text, json_object, json_schema or structural_tag, got \"{}\"",
            fields.param("type"), printable(type)));
  // The responses endpoint writes the members of json_schema beside the type.
  const OrderedJson* inner = fields.object("json_schema");
  if (!inner && !fields.has("schema")) fields.missing("json_schema");
  Fields schema_fields(inner ? *inner : wanted, inner ? fields.param("json_schema") : path);
  const OrderedJson* schema = schema_fields.find("schema");
  if (!schema) schema_fields.missing("schema");
  return schema_constraint(*schema, schema_fields.param("schema"), services);
}

Program read_constraint(Fields& fields, const ApiServices& services) {
  ConstraintReader reader(services);
  if (const OrderedJson* wanted = fields.object("response_format"))
    reader.take("response_format", format_constraint(*wanted, "response_format", services));
  if (const OrderedJson* schema = fields.find("json_schema"))
    reader.take("json_schema", schema_constraint(*schema, "json_schema", services));
  if (const auto text = fields.string("grammar", kMaxGrammarBytes); text && !text->empty())
    reader.take("grammar", compiled("grammar", [&] { return services.grammars.ebnf(*text); }));
  reader.read(fields, kGuided);
  if (const OrderedJson* wanted = fields.object("structured_outputs")) {
    Fields inner(*wanted, "structured_outputs");
    reader.read(inner, kStructured);
  }
  return reader.result();
}

}  // namespace cheetah
