// SPDX-License-Identifier: MIT
#pragma once
// How a JSON Schema becomes a grammar. Where a keyword allows more than a model needs, the grammar is
// narrower, never wider:
// - members come in the order they are declared; members that are not declared come last;
// - an object that declares properties and says nothing of additionalProperties has no others;
// - a schema without `type` but with keywords of one type describes that type;
// - an alternative of oneOf writes the members that tell it from the others, even optional ones.
#include <cstdint>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar_tree.h"
#include "engine/grammar/json_text.h"

namespace cheetah {

using OrderedJson = nlohmann::ordered_json;  // members keep the order they are written in

// Where in the schema we are, for messages and the depth limit.
struct SchemaPlace {
  std::string pointer;
  int depth = 0;

  SchemaPlace at(std::string_view keyword) const;             // the same schema's keyword
  SchemaPlace inside(std::string_view keyword) const;         // a schema below
  [[noreturn]] void fail(std::string_view problem) const;     // "schema: PROBLEM at POINTER"
  [[noreturn]] void unsupported(std::string_view why) const;  // "unsupported_schema_keyword: POINTER: WHY"
};

// Combines schemas: $ref with other keywords, allOf, and the keywords beside anyOf and oneOf.
class SchemaMerger {
 public:
  SchemaMerger(const OrderedJson& document, CompileBudget& budget) : document_(document), budget_(budget) {}

  // The part of the document a $ref names. Only references into the document itself exist.
  const OrderedJson& resolve(const std::string& reference, const SchemaPlace& place);
  // An equal schema without $ref and allOf at its top.
  OrderedJson flatten(const OrderedJson& schema, const SchemaPlace& place);
  // What satisfies both; `false` when that is plainly nothing. Both are flat.
  OrderedJson merge(const OrderedJson& a, const OrderedJson& b, const SchemaPlace& place);
  // No value satisfies both, as far as can be seen from types, enums and the members both declare. Members
  // that show it are added to `telling`.
  bool exclusive(const OrderedJson& a, const OrderedJson& b, const SchemaPlace& place,
      std::vector<std::string>& telling);

 private:
  void merge_keyword(
      OrderedJson& into, const std::string& keyword, const OrderedJson& value, const SchemaPlace& place);
  bool merge_lists(
      OrderedJson& mine, const std::string& keyword, const OrderedJson& value, const SchemaPlace& place);
  void merge_properties(OrderedJson& a, OrderedJson& b) const;

  const OrderedJson& document_;
  CompileBudget& budget_;
  int64_t references_ = 0;
};

class SchemaCompiler {
 public:
  SchemaCompiler(const OrderedJson& document, GrammarTree& tree)
      : document_(document), tree_(tree), json_(tree), merger_(document, tree.budget()) {}
  ExprId compile_document();

 private:
  ExprId compile(const OrderedJson& schema, const SchemaPlace& place);
  ExprId compile_reference(const std::string& reference, const SchemaPlace& place);
  ExprId compile_alternatives(const OrderedJson& flat, const std::string& keyword, const SchemaPlace& place);
  void check_exclusive(std::vector<OrderedJson>& alternatives, const SchemaPlace& place);
  ExprId compile_enum(const OrderedJson& schema, const SchemaPlace& place);
  ExprId compile_type(const OrderedJson& schema, const std::string& type, const SchemaPlace& place);

  ExprId compile_object(const OrderedJson& schema, const SchemaPlace& place);
  ExprId member(const std::string& name, const OrderedJson& value, const SchemaPlace& place);
  void add_extra_members(const OrderedJson& schema, const std::vector<std::string>& names,
      const SchemaPlace& place, MemberList& list);
  void add_pattern_members(const OrderedJson& patterns, const std::vector<std::string>& names,
      const SchemaPlace& place, MemberList& list);
  ExprId compile_array(const OrderedJson& schema, const SchemaPlace& place);
  ExprId long_array(ExprId item, int64_t min, int64_t max);
  ExprId compile_tuple(
      const OrderedJson& prefix, const OrderedJson* rest, const SchemaPlace& place, int64_t min, int64_t max);
  ExprId compile_string(const OrderedJson& schema, const SchemaPlace& place);
  ExprId compile_integer(const OrderedJson& schema, const SchemaPlace& place);
  ExprId compile_number(const OrderedJson& schema, const SchemaPlace& place);
  NumberRange number_range(const OrderedJson& schema, const SchemaPlace& place);
  ExprId multiples_in(const NumberRange& range, int64_t divisor, const SchemaPlace& place);

  int64_t count(const OrderedJson& schema, const char* keyword, int64_t fallback, const SchemaPlace& place);

  const OrderedJson& document_;
  GrammarTree& tree_;
  JsonText json_;
  SchemaMerger merger_;
  std::map<const OrderedJson*, RuleId> rules_;  // of schemas that a $ref names
  struct Waiting {
    RuleId rule;
    const OrderedJson* schema;
    SchemaPlace place;
  };
  std::deque<Waiting> waiting_;
};

// Throws for a keyword of `schema` that is not understood; annotations pass.
void check_keywords(const OrderedJson& schema, const SchemaPlace& place);
// True for keywords that only describe, so that dropping them changes no value's validity.
bool is_annotation(std::string_view keyword);
// The types named, or those the keywords imply, or all seven.
std::vector<std::string> types_of(const OrderedJson& schema, const SchemaPlace& place);
// The regex of a `format`, or nullptr.
const char* format_regex(std::string_view name);
bool is_descriptive_format(std::string_view name);

}  // namespace cheetah
