// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/schema_compiler.h"

namespace cheetah {
namespace {

constexpr std::array<std::string_view, 25> kAnnotations = {"$schema", "$id", "id", "$comment", "$defs",
    "definitions", "title", "description", "default", "example", "examples", "deprecated", "readOnly",
    "writeOnly", "$anchor", "strict", "name", "discriminator", "propertyOrdering", "contentMediaType",
    "contentEncoding", "externalDocs", "xml", "enumNames", "markdownDescription"};

struct Shaping {
  std::string_view keyword;
  std::string_view type;  // the type of value it shapes; empty: any
};
constexpr std::array<Shaping, 33> kShaping = {{{"type", ""}, {"enum", ""}, {"const", ""}, {"anyOf", ""},
    {"oneOf", ""}, {"allOf", ""}, {"$ref", ""}, {"nullable", ""}, {"properties", "object"},
    {"required", "object"}, {"additionalProperties", "object"}, {"patternProperties", "object"},
    {"minProperties", "object"}, {"maxProperties", "object"}, {"unevaluatedProperties", "object"},
    {"items", "array"}, {"prefixItems", "array"}, {"additionalItems", "array"}, {"unevaluatedItems", "array"},
    {"minItems", "array"}, {"maxItems", "array"}, {"uniqueItems", "array"}, {"minLength", "string"},
    {"maxLength", "string"}, {"pattern", "string"}, {"format", "string"}, {"minimum", "number"},
    {"maximum", "number"}, {"exclusiveMinimum", "number"}, {"exclusiveMaximum", "number"},
    {"multipleOf", "number"}, {"minContains", "array"}, {"maxContains", "array"}}};

constexpr std::array<std::string_view, 7> kTypes = {
    "object", "array", "string", "number", "integer", "boolean", "null"};

}  // namespace

SchemaPlace SchemaPlace::at(std::string_view keyword) const {
  std::string escaped;
  for (const char c : keyword) escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return {pointer + "/" + escaped, depth};
}

SchemaPlace SchemaPlace::inside(std::string_view keyword) const {
  SchemaPlace below = at(keyword);
  ++below.depth;
  return below;
}

void SchemaPlace::fail(std::string_view problem) const {
  throw Error(format("schema: {} at {}", problem, pointer.empty() ? "/" : printable(pointer, 200)));
}

void SchemaPlace::unsupported(std::string_view why) const {
  throw Error(format("unsupported_schema_keyword: {}: {}", printable(pointer, 200), why));
}

bool is_annotation(std::string_view keyword) {
  return std::find(kAnnotations.begin(), kAnnotations.end(), keyword) != kAnnotations.end() ||
         keyword.substr(0, 2) == "x-";
}

void check_keywords(const OrderedJson& schema, const SchemaPlace& place) {
  for (const auto& [keyword, value] : schema.items()) {
    if (is_annotation(keyword)) continue;
    const bool known = std::any_of(kShaping.begin(), kShaping.end(),
        [&, &name = keyword](const Shaping& s) { return s.keyword == name; });
    if (!known || keyword == "minContains" || keyword == "maxContains")
      place.at(keyword).unsupported("this keyword is not supported");
    // Closing what other keywords left open is fine where it is closed anyway.
    if (keyword.rfind("unevaluated", 0) == 0 && value != false && value != true)
      place.at(keyword).unsupported("only true and false are supported");
  }
}

std::vector<std::string> types_of(const OrderedJson& schema, const SchemaPlace& place) {
  std::vector<std::string> types;
  const auto add = [&](const OrderedJson& name, const SchemaPlace& where) {
    if (!name.is_string() || std::find(kTypes.begin(), kTypes.end(), name.get<std::string>()) == kTypes.end())
      where.fail("expected the name of a type (object, array, string, number, integer, boolean or null)");
    if (std::find(types.begin(), types.end(), name.get<std::string>()) == types.end())
      types.push_back(name.get<std::string>());
  };
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (type->is_array()) {
      if (type->empty()) place.at("type").fail("expected at least one type");
      for (size_t i = 0; i < type->size(); ++i) add((*type)[i], place.at("type").at(std::to_string(i)));
    } else {
      add(*type, place.at("type"));
    }
  } else {
    for (const Shaping& shaping : kShaping)
      if (!shaping.type.empty() && schema.contains(shaping.keyword)) add(shaping.type, place);
    if (types.empty()) types = {"object", "array", "string", "number", "boolean", "null"};
  }
  if (schema.value("nullable", OrderedJson(false)) == true) add("null", place);
  return types;
}

bool is_descriptive_format(std::string_view name) {
  constexpr std::array<std::string_view, 9> kNames = {
      "int32", "int64", "float", "double", "password", "binary", "byte", "regex", "decimal"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

// Subsets of what the formats' RFCs allow, so that every validator agrees.
const char* format_regex(std::string_view name) {
  struct Format {
    std::string_view name;
    const char* regex;
  };
#define CHEETAH_DATE                                                                                         \
  "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[" \
  "1-"                                                                                                       \
  "9]|1[0-9]|2[0-8]))"
#define CHEETAH_TIME \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define CHEETAH_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?"
#define CHEETAH_HOST CHEETAH_LABEL "(?:\\." CHEETAH_LABEL "){0,6}"
#define CHEETAH_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define CHEETAH_PATH "(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})"
  static constexpr std::array<Format, 13> kFormats = {{
      {"date", CHEETAH_DATE},
      {"time", CHEETAH_TIME},
      {"date-time", CHEETAH_DATE "T" CHEETAH_TIME},
      {"duration",
          "P(?:[0-9]{1,4}W|(?:[0-9]{1,4}Y(?:[0-9]{1,2}M(?:[0-9]{1,2}D)?)?|[0-9]{1,2}M(?:[0-9]{1,2}D)?|[0-9]{1,4}"
          "D)(?:"
          "T(?:[0-9]{1,2}H(?:[0-9]{1,2}M(?:[0-9]{1,2}S)?)?|[0-9]{1,2}M(?:[0-9]{1,2}S)?|[0-9]{1,4}S))?|T(?:[0-9]{"
          "1,2}"
          "H(?:[0-9]{1,2}M(?:[0-9]{1,2}S)?)?|[0-9]{1,2}M(?:[0-9]{1,2}S)?|[0-9]{1,4}S))"},
      {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
      {"email", "[A-Za-z0-9_+-]{1,32}(?:\\.[A-Za-z0-9_+-]{1,16}){0,2}@" CHEETAH_LABEL "(?:\\." CHEETAH_LABEL
                "){1,4}"},
      {"hostname", CHEETAH_HOST},
      {"ipv4", CHEETAH_OCTET "(?:\\." CHEETAH_OCTET "){3}"},
      {"ipv6",
          "(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|(?:[0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4}|::(?:[0-9a-fA-F]"
          "{1,4}(?"
          "::[0-9a-fA-F]{1,4}){0,5})?"},
      {"uri", "https?://" CHEETAH_HOST "(?::[1-9][0-9]{0,3})?(?:/" CHEETAH_PATH "{0,200})?(?:\\?" CHEETAH_PATH
              "{0,200})?(?:#" CHEETAH_PATH "{0,100})?"},
      {"uri-reference", "(?:https?://" CHEETAH_HOST ")?/" CHEETAH_PATH "{0,200}"},
      {"json-pointer", "(?:/(?:[^\\x00-\\x1F/~]|~[01]){0,64}){0,16}"},
      {"slug", "[a-z0-9]+(?:-[a-z0-9]+){0,16}"},
  }};
#undef CHEETAH_DATE
#undef CHEETAH_TIME
#undef CHEETAH_LABEL
#undef CHEETAH_HOST
#undef CHEETAH_OCTET
#undef CHEETAH_PATH
  const auto known = std::find_if(
      kFormats.begin(), kFormats.end(), [&](const Format& format) { return format.name == name; });
  return known == kFormats.end() ? nullptr : known->regex;
}

}  // namespace cheetah
