// SPDX-License-Identifier: MIT
#pragma once
// JSON as the model may write it: the pieces every schema is made of.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/grammar_tree.h"

namespace cheetah {

// A character class inside a JSON string: plain ones as they are, the others by their one canonical escape.
ExprId json_characters(GrammarTree& tree, const CodepointSet& set);

// A finite decimal number as written in a schema: 12.5e3 has digits "125" and point 5.
struct Decimal {
  bool negative = false;
  std::string whole;     // without leading zeros, "0" for none
  std::string fraction;  // without trailing zeros
  bool is_zero() const { return whole == "0" && fraction.empty(); }
  bool is_whole() const { return fraction.empty(); }
};
std::optional<Decimal> parse_decimal(std::string_view text);  // nullopt: more than 40 digits
// Negative, zero or positive as a is below, equal to or above b.
int compare(const Decimal& a, const Decimal& b);

struct NumberBound {
  Decimal value;
  bool exclusive = false;
};
struct NumberRange {
  std::optional<NumberBound> low, high;
};

// Builds and shares the common pieces in one tree.
class JsonText {
 public:
  explicit JsonText(GrammarTree& tree) : tree_(tree) {}

  ExprId space();  // where a line may break: nothing, a space, or a line break with some indent
  ExprId colon();  // with an optional space
  ExprId comma();
  ExprId any_value();
  ExprId any_object();
  ExprId any_array();
  ExprId string(int64_t min_length, int64_t max_length);
  ExprId quoted(ExprId content) {
    return tree_.sequence({tree_.literal("\""), content, tree_.literal("\"")});
  }
  ExprId content_character();  // of a string: any character, escaped or not
  // A key other than `names`, each character written in one way only.
  ExprId other_key(const std::vector<std::string>& names);
  ExprId number();
  ExprId integer();
  ExprId number_in(const NumberRange& range);
  ExprId integer_in(const NumberRange& range);  // exact
  ExprId integer_multiple_of(int64_t divisor);
  ExprId decimal_places(int places);  // a number with at most so many
  ExprId digits(int64_t min, int64_t max);

 private:
  RuleId rule_once(std::optional<RuleId>& slot, const char* name, ExprId (JsonText::*body)());
  ExprId space_body();
  ExprId value_body();
  ExprId escape_body();
  ExprId object_body();
  ExprId array_body();
  ExprId escape();

  GrammarTree& tree_;
  std::optional<RuleId> space_, value_, escape_, object_, array_;
};

std::string json_quoted(std::string_view text);

}  // namespace cheetah
