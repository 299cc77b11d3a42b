// SPDX-License-Identifier: MIT
// Strings, numbers and arrays of a schema.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/bounded_regex.h"
#include "engine/grammar/regex.h"
#include "engine/grammar/schema_compiler.h"

namespace cheetah {
namespace {

constexpr size_t kMaxPrefixItems = 256;
constexpr int64_t kMaxDivisor = 256;     // one rule for each remainder
constexpr int64_t kMaxMultiples = 2000;  // a range with fewer is written out

struct Lengths {
  int64_t min, max;  // in characters; max may be kUnbounded
};

// How long the texts of a regex can be. Only what parse_regex makes of plain text comes up.
Lengths lengths_of(const GrammarTree& tree, ExprId id) {
  const Expression& expression = tree[id];
  Lengths all{0, 0};
  switch (expression.kind) {
    case Expression::Kind::kCharacters:
      return {1, 1};
    case Expression::Kind::kSequence:
      for (const ExprId child : expression.children) {
        const Lengths part = lengths_of(tree, child);
        all.min += part.min;
        all.max = all.max == kUnbounded || part.max == kUnbounded ? kUnbounded : all.max + part.max;
      }
      return all;
    case Expression::Kind::kChoice:
      all.min = INT64_MAX;
      for (const ExprId child : expression.children) {
        const Lengths part = lengths_of(tree, child);
        all.min = std::min(all.min, part.min);
        all.max = all.max == kUnbounded || part.max == kUnbounded ? kUnbounded : std::max(all.max, part.max);
      }
      return all;
    case Expression::Kind::kRepeat: {
      const Lengths body = lengths_of(tree, expression.children[0]);
      const bool endless = expression.max == kUnbounded || body.max == kUnbounded;
      return {body.min * expression.min, body.max == 0 ? 0
                                         : endless     ? kUnbounded
                                                       : body.max * expression.max};
    }
    default:
      return all;
  }
}

}  // namespace

ExprId SchemaCompiler::compile_string(const OrderedJson& schema, const SchemaPlace& place) {
  const int64_t min = count(schema, "minLength", 0, place);
  const int64_t max = count(schema, "maxLength", kUnbounded, place);
  if (max != kUnbounded && min > max)
    place.at("minLength").fail("schema can never be satisfied: minLength is above maxLength");
  std::string keyword, regex;
  if (const auto format_name = schema.find("format"); format_name != schema.end()) {
    if (!format_name->is_string()) place.at("format").fail("expected a string");
    const std::string name = format_name->get<std::string>();
    if (const char* known = format_regex(name)) {
      keyword = "format";
      regex = std::string("^(?:") + known + ")$";
    } else if (!is_descriptive_format(name)) {
      place.at("format").unsupported(format("the format \"{}\" is not supported", printable(name)));
    }
  }
  if (const auto pattern = schema.find("pattern"); pattern != schema.end()) {
    if (!pattern->is_string()) place.at("pattern").fail("expected a string");
    if (!keyword.empty()) place.at("pattern").unsupported("cannot stand beside format");
    keyword = "pattern";
    regex = pattern->get<std::string>();
  }
  if (keyword.empty()) return json_.string(min, max);
  try {
    GrammarTree plain(tree_.budget());
    const Lengths lengths =
        lengths_of(plain, parse_regex(regex, plain, {.in_json_string = false, .search = true}));
    if (lengths.min < min || (max != kUnbounded && (lengths.max == kUnbounded || lengths.max > max)))
      return json_.quoted(bounded_json_pattern(regex, min, max, tree_));
    return json_.quoted(parse_regex(regex, tree_, {.in_json_string = true, .search = true}));
  } catch (const Error& error) {
    const std::string_view problem = error.what();
    if (problem.rfind("regex:", 0) != 0) throw;
    place.at(keyword).fail(problem);
  }
}

NumberRange SchemaCompiler::number_range(const OrderedJson& schema, const SchemaPlace& place) {
  NumberRange range;
  const auto bound = [&](const char* keyword, bool exclusive, std::optional<NumberBound>& slot, int tighter) {
    const auto value = schema.find(keyword);
    if (value == schema.end()) return;
    if (!value->is_number()) place.at(keyword).fail("expected a number");
    const std::optional<Decimal> decimal = parse_decimal(value->dump());
    if (!decimal) place.at(keyword).unsupported("a bound of more than 40 digits");
    const int order = slot ? compare(*decimal, slot->value) * tighter : 1;
    if (order > 0 || (order == 0 && exclusive)) slot = NumberBound{*decimal, exclusive};
  };
  bound("minimum", false, range.low, 1);
  bound("exclusiveMinimum", true, range.low, 1);
  bound("maximum", false, range.high, -1);
  bound("exclusiveMaximum", true, range.high, -1);
  if (range.low && range.high) {
    const int order = compare(range.low->value, range.high->value);
    if (order > 0 || (order == 0 && (range.low->exclusive || range.high->exclusive)))
      place.fail("schema can never be satisfied: the minimum is above the maximum");
  }
  return range;
}

ExprId SchemaCompiler::compile_integer(const OrderedJson& schema, const SchemaPlace& place) {
  const NumberRange range = number_range(schema, place);
  const bool bounded = range.low || range.high;
  const auto multiple = schema.find("multipleOf");
  if (multiple == schema.end() || *multiple == 1) return bounded ? json_.integer_in(range) : json_.integer();
  const double divisor = multiple->is_number() ? multiple->get<double>() : 0;
  if (!(divisor > 0)) place.at("multipleOf").fail("expected a number above 0");
  if (divisor != std::floor(divisor) || divisor > 1e15)
    place.at("multipleOf").unsupported("only whole numbers are supported for integers");
  if (bounded) return multiples_in(range, static_cast<int64_t>(divisor), place);
  if (divisor > static_cast<double>(kMaxDivisor))
    place.at("multipleOf").unsupported(format("more than {} without bounds", kMaxDivisor));
  return json_.integer_multiple_of(static_cast<int64_t>(divisor));
}

ExprId SchemaCompiler::multiples_in(const NumberRange& range, int64_t divisor, const SchemaPlace& place) {
  const auto whole = [&](const std::optional<NumberBound>& bound) -> double {
    if (!bound || bound->value.whole.size() > 15)
      place.at("multipleOf").unsupported("needs both bounds, of at most 15 digits");
    const double value = std::stod(bound->value.whole + "." + bound->value.fraction + "0");
    return bound->value.negative ? -value : value;
  };
  const double low = whole(range.low), high = whole(range.high);
  const auto d = static_cast<double>(divisor);
  std::vector<std::string> texts;
  for (auto k = static_cast<int64_t>(std::ceil(low / d)); static_cast<double>(k * divisor) <= high; ++k) {
    const auto value = static_cast<double>(k * divisor);
    if ((range.low->exclusive && value == low) || (range.high->exclusive && value == high)) continue;
    texts.push_back(std::to_string(k * divisor));
    if (static_cast<int64_t>(texts.size()) > kMaxMultiples)
      place.at("multipleOf").unsupported(format("more than {} values between the bounds", kMaxMultiples));
  }
  if (texts.empty())
    place.at("multipleOf").fail("schema can never be satisfied: no multiple between the bounds");
  return tree_.literals(std::move(texts));
}

ExprId SchemaCompiler::compile_number(const OrderedJson& schema, const SchemaPlace& place) {
  const NumberRange range = number_range(schema, place);
  const bool bounded = range.low || range.high;
  const auto multiple = schema.find("multipleOf");
  if (multiple == schema.end()) return bounded ? json_.number_in(range) : json_.number();
  const double divisor = multiple->is_number() ? multiple->get<double>() : 0;
  if (!(divisor > 0)) place.at("multipleOf").fail("expected a number above 0");
  if (divisor == std::floor(divisor)) return compile_integer(schema, place);
  const std::optional<Decimal> decimal = parse_decimal(multiple->dump());
  const bool power_of_ten = decimal && decimal->whole == "0" && decimal->fraction.back() == '1' &&
                            decimal->fraction.find_first_not_of('0') == decimal->fraction.size() - 1;
  if (!power_of_ten || bounded)
    place.at("multipleOf").unsupported("of a fraction only 0.1, 0.01 … are supported, without bounds");
  return json_.decimal_places(static_cast<int>(decimal->fraction.size()));
}

ExprId SchemaCompiler::compile_array(const OrderedJson& schema, const SchemaPlace& place) {
  const int64_t min = count(schema, "minItems", 0, place);
  const int64_t max = count(schema, "maxItems", kUnbounded, place);
  if (max != kUnbounded && min > max)
    place.at("minItems").fail("schema can never be satisfied: minItems is above maxItems");
  if (schema.value("uniqueItems", OrderedJson(false)) == true && max != 0 && max != 1)
    place.at("uniqueItems").unsupported("a grammar cannot compare items");
  const auto items = schema.find("items");
  const bool old_tuple = items != schema.end() && items->is_array();
  const char* prefix_keyword = old_tuple ? "items" : "prefixItems";
  const char* rest_keyword = old_tuple ? "additionalItems" : "items";
  const OrderedJson* rest = schema.contains(rest_keyword) ? &schema[rest_keyword] : nullptr;
  if (schema.contains(prefix_keyword)) {
    const OrderedJson& prefix = schema[prefix_keyword];
    if (!prefix.is_array()) place.at(prefix_keyword).fail("expected a list of schemas");
    if (!prefix.empty()) return compile_tuple(prefix, rest, place, min, max);
  }
  MemberList list;
  list.separator = json_.comma();
  const bool closed = !rest && schema.value("unevaluatedItems", OrderedJson(true)) == false;
  if (!closed && !(rest && *rest == false))
    list.extra = rest ? compile(*rest, place.inside(rest_keyword)) : json_.any_value();
  if (list.extra && std::max(min, max) > tree_.budget().limits().max_properties)
    return long_array(*list.extra, min, max);
  list.min = min;
  list.max = max;
  return tree_.sequence(
      {tree_.literal("["), json_.space(), tree_.members(std::move(list)), json_.space(), tree_.literal("]")});
}

// Repetition is cheaper than a list of members whose number is kept beside each.
ExprId SchemaCompiler::long_array(ExprId item, int64_t min, int64_t max) {
  const ExprId further = tree_.repeat(tree_.sequence({json_.comma(), item}), std::max<int64_t>(0, min - 1),
      max == kUnbounded ? kUnbounded : max - 1);
  const ExprId items = tree_.sequence({item, further});
  return tree_.sequence({tree_.literal("["), json_.space(), min == 0 ? tree_.optional(items) : items,
      json_.space(), tree_.literal("]")});
}

ExprId SchemaCompiler::compile_tuple(
    const OrderedJson& prefix, const OrderedJson* rest, const SchemaPlace& place, int64_t min, int64_t max) {
  if (prefix.size() > kMaxPrefixItems)
    place.at("prefixItems").fail(format("grammar_too_complex: more than {} prefix items", kMaxPrefixItems));
  const auto n = static_cast<int64_t>(prefix.size());
  // From the back: what may stand from item i on, given that the items before are there.
  ExprId tail = tree_.empty();
  const bool more_allowed = rest ? *rest != false : min > n;
  if (more_allowed && (max == kUnbounded || max > n)) {
    const ExprId item = rest ? compile(*rest, place.inside("items")) : json_.any_value();
    tail = tree_.repeat(tree_.sequence({json_.comma(), item}), std::max<int64_t>(0, min - n),
        max == kUnbounded ? kUnbounded : max - n);
  } else if (min > n) {
    place.at("minItems").fail("schema can never be satisfied: fewer items are declared");
  }
  for (int64_t i = n - 1; i >= 0; --i) {
    if (max != kUnbounded && i >= max) continue;
    const SchemaPlace there = place.at("prefixItems").inside(std::to_string(i));
    std::vector<ExprId> parts = {compile(prefix[static_cast<size_t>(i)], there), tail};
    if (i > 0) parts.insert(parts.begin(), json_.comma());
    tail = tree_.sequence(std::move(parts));
    if (i >= min) tail = tree_.optional(tail);
  }
  return tree_.sequence({tree_.literal("["), json_.space(), tail, json_.space(), tree_.literal("]")});
}

}  // namespace cheetah
