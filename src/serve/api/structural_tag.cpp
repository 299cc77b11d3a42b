// SPDX-License-Identifier: MIT
#include "serve/api/structural_tag.h"

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/grammar_cache.h"
#include "serve/api/constraint.h"
#include "serve/api/failure.h"
#include "serve/api/fields.h"

namespace cheetah {
namespace {

using Program = std::shared_ptr<const GrammarProgram>;

constexpr size_t kMaxTags = 128;
constexpr size_t kMaxTriggers = 8;
constexpr size_t kMaxTextBytes = 1024;

std::string schema_text(const OrderedJson& schema, const std::string& param) {
  if (!schema.is_object() && !schema.is_boolean())
    refuse("invalid_type", param, format("{} must be a JSON schema object, got {}", param, shown(schema)));
  return dump_ordered(schema);
}

// What stands in a tag, as a schema: JSON that follows one, or any JSON.
std::string content_schema(Fields& fields) {
  const OrderedJson* const content = fields.object("content");
  if (!content) fields.missing("content");
  Fields inner(*content, fields.param("content"));
  const std::string type = inner.required_string("type", 64);
  if (type != "json_schema")
    refuse("invalid_value", inner.param("type"),
        format("{} must be json_schema, got \"{}\"", inner.param("type"), printable(type)));
  const OrderedJson* const schema = inner.find("json_schema");
  if (!schema) inner.missing("json_schema");
  return schema_text(*schema, inner.param("json_schema"));
}

class TagReader {
 public:
  // begin and end, and `content` or `schema` between them.
  void add(const OrderedJson& tag, const std::string& path) {
    Fields fields(tag, path);
    ToolForm form{.prefix = fields.required_string("begin", kMaxTextBytes), .json_schema = {}, .suffix = {}};
    if (const OrderedJson* const schema = fields.find("schema"))
      form.json_schema = schema_text(*schema, fields.param("schema"));
    else
      form.json_schema = content_schema(fields);
    form.suffix = fields.string("end", kMaxTextBytes).value_or("");
    wanted_.forms.push_back(std::move(form));
  }

  void add_all(Fields& fields, std::string_view name) {
    const OrderedJson* const tags = fields.array(name);
    if (!tags) fields.missing(name);
    if (tags->empty() || tags->size() > kMaxTags)
      refuse("invalid_value", fields.param(name),
          format("{} must have 1 to {} tags, got {}", fields.param(name), kMaxTags, tags->size()));
    for (size_t i = 0; i < tags->size(); ++i) add((*tags)[i], format("{}[{}]", fields.param(name), i));
  }

  void read_triggers(Fields& fields) {
    const OrderedJson* const triggers = fields.array("triggers");
    if (!triggers) fields.missing("triggers");
    if (triggers->empty() || triggers->size() > kMaxTriggers)
      refuse("invalid_value", fields.param("triggers"),
          format("{} must have 1 to {} texts, got {}", fields.param("triggers"), kMaxTriggers,
              triggers->size()));
    for (size_t i = 0; i < triggers->size(); ++i) {
      const std::string param = format("{}[{}]", fields.param("triggers"), i);
      if (!(*triggers)[i].is_string() || (*triggers)[i].get_ref<const std::string&>().empty())
        refuse("invalid_value", param, format("{} must be a text that is not empty", param));
      wanted_.more_triggers.push_back((*triggers)[i]);
    }
    for (size_t i = 0; i < wanted_.forms.size(); ++i) check_trigger(i, fields);
  }

  ToolCallFormat& wanted() { return wanted_; }

 private:
  void check_trigger(size_t tag, const Fields& fields) const {
    for (const std::string& trigger : wanted_.more_triggers)
      if (wanted_.forms[tag].prefix.starts_with(trigger)) return;
    refuse("invalid_value", fields.param("triggers"),
        format("the tag \"{}\" begins with none of {}", printable(wanted_.forms[tag].prefix, 100),
            fields.param("triggers")));
  }
  ToolCallFormat wanted_;
};

Program compile(const ToolCallFormat& wanted, const std::string& path, const ApiServices& services) {
  return compiled(path, [&] { return services.grammars.tool_calls(wanted); });
}

Program structures(Fields& fields, const std::string& path, const ApiServices& services) {
  TagReader reader;
  reader.add_all(fields, "structures");
  reader.read_triggers(fields);
  reader.wanted().min_calls = 0;
  reader.wanted().max_calls = kUnbounded;
  return compile(reader.wanted(), path, services);
}

Program format_of(const OrderedJson& wanted, const std::string& path, const ApiServices& services) {
  Fields fields(wanted, path);
  const std::string type = fields.required_string("type", 64);
  TagReader reader;
  ToolCallFormat& format_spec = reader.wanted();
  if (type == "triggered_tags") {
    reader.add_all(fields, "tags");
    reader.read_triggers(fields);
    format_spec.min_calls = fields.boolean("at_least_one").value_or(false) ? 1 : 0;
    format_spec.max_calls = fields.boolean("stop_after_first").value_or(false) ? 1 : kUnbounded;
  } else if (type == "tags_with_separator") {
    reader.add_all(fields, "tags");
    format_spec.separator = fields.string("separator", kMaxTextBytes).value_or("");
    format_spec.min_calls = fields.boolean("at_least_one").value_or(false) ? 1 : 0;
    format_spec.max_calls = fields.boolean("stop_after_first").value_or(false) ? 1 : kUnbounded;
  } else if (type == "tag") {
    reader.add(wanted, path);
  } else if (type == "json_schema") {
    const OrderedJson* const schema = fields.find("json_schema");
    if (!schema) fields.missing("json_schema");
    return schema_constraint(*schema, fields.param("json_schema"), services);
  } else {
    refuse("invalid_value", fields.param("type"),
        format("{} must be triggered_tags, tags_with_separator, tag or json_schema, got \"{}\"",
            fields.param("type"), printable(type)));
  }
  return compile(format_spec, path, services);
}

}  // namespace

Program structural_tag_constraint(
    const OrderedJson& wanted, const std::string& path, const ApiServices& services) {
  Fields fields(wanted, path);
  if (const OrderedJson* const inner = fields.object("format"))
    return format_of(*inner, fields.param("format"), services);
  if (!fields.has("structures")) fields.missing("structures");
  return structures(fields, path, services);
}

}  // namespace cheetah
