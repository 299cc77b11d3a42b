// SPDX-License-Identifier: MIT
#include "engine/grammar/json_text.h"

#include <map>

#include "base/json.h"
#include "engine/grammar/utf8.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxIndent = 20;
// Longer numbers lose their value in every common reader; without a bound a model could write digits for
// ever.
constexpr int64_t kMaxIntegerDigits = 18;
constexpr int64_t kMaxFractionDigits = 16;

CodepointSet ranges(std::vector<CodepointSet::Range> list) { return CodepointSet(std::move(list)); }

}  // namespace

std::string json_quoted(std::string_view text) { return dump_json(Json(text)); }

ExprId json_characters(GrammarTree& tree, const CodepointSet& set) {
  std::vector<ExprId> ways;
  const CodepointSet plain = set.intersected(plain_json_characters());
  if (!plain.empty()) ways.push_back(tree.characters(plain));
  std::vector<std::string> escaped;
  for (uint32_t c = 0; c < 0x80; ++c) {
    if (!set.contains(c) || plain.contains(c)) continue;
    const std::string quoted = json_quoted(std::string(1, static_cast<char>(c)));
    escaped.push_back(quoted.substr(1, quoted.size() - 2));
  }
  if (!escaped.empty()) ways.push_back(tree.literals(std::move(escaped)));
  return tree.choice(std::move(ways));
}

RuleId JsonText::rule_once(std::optional<RuleId>& slot, const char* name, ExprId (JsonText::*body)()) {
  if (!slot) {
    slot = tree_.declare_rule(name);
    tree_.define_rule(*slot, (this->*body)());
  }
  return *slot;
}

ExprId JsonText::space() { return tree_.rule(rule_once(space_, "space", &JsonText::space_body)); }
ExprId JsonText::any_value() { return tree_.rule(rule_once(value_, "any value", &JsonText::value_body)); }
ExprId JsonText::any_object() { return tree_.rule(rule_once(object_, "any object", &JsonText::object_body)); }
ExprId JsonText::any_array() { return tree_.rule(rule_once(array_, "any array", &JsonText::array_body)); }
ExprId JsonText::escape() { return tree_.rule(rule_once(escape_, "an escape", &JsonText::escape_body)); }

ExprId JsonText::space_body() {
  const ExprId indent = tree_.repeat(tree_.characters(ranges({{' ', ' '}, {'\t', '\t'}})), 0, kMaxIndent);
  return tree_.choice({tree_.empty(), tree_.literal(" "), tree_.sequence({tree_.literal("\n"), indent})});
}

ExprId JsonText::colon() { return tree_.literals({":", ": "}); }
ExprId JsonText::comma() { return tree_.sequence({tree_.literal(","), space()}); }

// After the backslash one of the short forms, or \u with paired surrogates only.
ExprId JsonText::escape_body() {
  const auto hex = [&] { return tree_.characters(ranges({{'0', '9'}, {'a', 'f'}, {'A', 'F'}})); };
  const auto one = [&](std::vector<CodepointSet::Range> list) {
    return tree_.characters(ranges(std::move(list)));
  };
  const ExprId d = one({{'d', 'd'}, {'D', 'D'}});
  const ExprId not_surrogate = tree_.choice(
      {tree_.sequence(
           {one({{'0', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}}), hex(), hex(), hex()}),
          tree_.sequence({d, one({{'0', '7'}}), hex(), hex()})});
  const ExprId pair = tree_.sequence({d, one({{'8', '9'}, {'a', 'b'}, {'A', 'B'}}), hex(), hex(),
      tree_.literal("\\u"), d, one({{'c', 'f'}, {'C', 'F'}}), hex(), hex()});
  return tree_.sequence(
      {tree_.literal("\\"), tree_.choice({tree_.literals({"\"", "\\", "/", "b", "f", "n", "r", "t"}),
                                tree_.sequence({tree_.literal("u"), tree_.choice({not_surrogate, pair})})})});
}

ExprId JsonText::content_character() {
  return tree_.choice({tree_.characters(plain_json_characters()), escape()});
}

ExprId JsonText::string(int64_t min_length, int64_t max_length) {
  return quoted(tree_.repeat(content_character(), min_length, max_length));
}

ExprId JsonText::object_body() {
  MemberList list;
  list.separator = comma();
  list.extra = tree_.sequence({string(0, kUnbounded), colon(), any_value()});
  return tree_.sequence(
      {tree_.literal("{"), space(), tree_.members(std::move(list)), space(), tree_.literal("}")});
}

ExprId JsonText::array_body() {
  MemberList list;
  list.separator = comma();
  list.extra = any_value();
  return tree_.sequence(
      {tree_.literal("["), space(), tree_.members(std::move(list)), space(), tree_.literal("]")});
}

ExprId JsonText::value_body() {
  return tree_.choice({any_object(), any_array(), string(0, kUnbounded), number(),
      tree_.literals({"true", "false", "null"})});
}

ExprId JsonText::digits(int64_t min, int64_t max) {
  return tree_.repeat(tree_.characters(ranges({{'0', '9'}})), min, max);
}

ExprId JsonText::integer() {
  const ExprId natural =
      tree_.sequence({tree_.characters(ranges({{'1', '9'}})), digits(0, kMaxIntegerDigits - 1)});
  return tree_.choice({tree_.literal("0"), tree_.sequence({tree_.optional(tree_.literal("-")), natural})});
}

ExprId JsonText::number() {
  const ExprId whole = tree_.choice({tree_.literal("0"),
      tree_.sequence({tree_.characters(ranges({{'1', '9'}})), digits(0, kMaxIntegerDigits - 1)})});
  const ExprId fraction = tree_.sequence({tree_.literal("."), digits(1, kMaxFractionDigits)});
  const ExprId exponent =
      tree_.sequence({tree_.literals({"e", "E"}), tree_.optional(tree_.literals({"+", "-"})), digits(1, 2)});
  return tree_.sequence(
      {tree_.optional(tree_.literal("-")), whole, tree_.optional(fraction), tree_.optional(exponent)});
}

ExprId JsonText::decimal_places(int places) {
  if (places == 0) return integer();
  const ExprId whole = tree_.choice({tree_.literal("0"),
      tree_.sequence({tree_.characters(ranges({{'1', '9'}})), digits(0, kMaxIntegerDigits - 1)})});
  const ExprId fraction = tree_.sequence({tree_.literal("."), digits(1, places)});
  return tree_.sequence({tree_.optional(tree_.literal("-")), whole, tree_.optional(fraction)});
}

// Right-linear rules, one per remainder: the digits read so far leave r when divided.
ExprId JsonText::integer_multiple_of(int64_t divisor) {
  std::vector<RuleId> rest;
  for (int64_t r = 0; r < divisor; ++r) rest.push_back(tree_.declare_rule("a multiple"));
  const auto digit = [&](int64_t r, int64_t d) {
    const auto next = static_cast<size_t>((10 * r + d) % divisor);
    return tree_.sequence(
        {tree_.literal(std::string(1, static_cast<char>('0' + d))), tree_.rule(rest[next])});
  };
  for (int64_t r = 0; r < divisor; ++r) {
    std::vector<ExprId> ways;
    if (r == 0) ways.push_back(tree_.empty());
    for (int64_t d = 0; d < 10; ++d) ways.push_back(digit(r, d));
    tree_.define_rule(rest[static_cast<size_t>(r)], tree_.choice(std::move(ways)));
  }
  std::vector<ExprId> first;
  for (int64_t d = 1; d < 10; ++d) first.push_back(digit(0, d));
  return tree_.choice({tree_.literal("0"),
      tree_.sequence({tree_.optional(tree_.literal("-")), tree_.choice(std::move(first))})});
}

// A trie of the names: a key leaves it at some character, or ends where no name does.
ExprId JsonText::other_key(const std::vector<std::string>& names) {
  struct Node {
    std::map<uint32_t, size_t> children;
    bool is_name = false;
  };
  std::vector<Node> trie(1);
  for (const std::string& name : names) {
    size_t at = 0;
    for (size_t i = 0; i < name.size();) {
      const uint32_t c = read_utf8(name, i, "a property name");
      const auto [child, fresh] = trie[at].children.try_emplace(c, trie.size());
      const size_t next = child->second;
      if (fresh) trie.emplace_back();
      at = next;
    }
    trie[at].is_name = true;
  }
  const ExprId any = json_characters(tree_, CodepointSet::all());
  std::vector<RuleId> rules;
  for (size_t i = 0; i < trie.size(); ++i) rules.push_back(tree_.declare_rule("another key"));
  for (size_t i = 0; i < trie.size(); ++i) {
    std::vector<ExprId> ways;
    std::vector<CodepointSet::Range> taken;
    if (!trie[i].is_name) ways.push_back(tree_.empty());
    for (const auto& [c, child] : trie[i].children) {
      taken.push_back({c, c});
      ways.push_back(
          tree_.sequence({json_characters(tree_, CodepointSet({{c, c}})), tree_.rule(rules[child])}));
    }
    const CodepointSet others = CodepointSet(std::move(taken)).complement();
    ways.push_back(tree_.sequence({json_characters(tree_, others), tree_.repeat(any, 0, kUnbounded)}));
    tree_.define_rule(rules[i], tree_.choice(std::move(ways)));
  }
  return quoted(tree_.rule(rules[0]));
}

}  // namespace cheetah
