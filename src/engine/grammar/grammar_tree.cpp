// SPDX-License-Identifier: MIT
#include "engine/grammar/grammar_tree.h"

#include <algorithm>

namespace cheetah {
namespace {

template <class T>
int32_t append(std::vector<T>& list, T value) {
  list.push_back(std::move(value));
  return static_cast<int32_t>(list.size()) - 1;
}

}  // namespace

ExprId GrammarTree::add(Expression expression) {
  budget_.step();
  budget_.allocate(static_cast<int64_t>(sizeof(Expression) + expression.children.size() * sizeof(ExprId)));
  return ExprId{append(expressions_, std::move(expression))};
}

ExprId GrammarTree::characters(CodepointSet set) {
  if (set.empty()) return never();
  const auto known = std::find(classes_.begin(), classes_.end(), set);
  const auto index = static_cast<int32_t>(known - classes_.begin());
  if (known == classes_.end()) {
    budget_.allocate(static_cast<int64_t>(set.ranges().size() * sizeof(CodepointSet::Range)));
    append(classes_, std::move(set));
  }
  budget_.step(index);
  return add({.kind = Expression::Kind::kCharacters, .index = index});
}

ExprId GrammarTree::literal(std::string bytes) {
  if (bytes.empty()) return empty();
  return literals({std::move(bytes)});
}

ExprId GrammarTree::literals(std::vector<std::string> alternatives) {
  for (const std::string& text : alternatives) budget_.allocate(static_cast<int64_t>(text.size()) + 32);
  return add({.kind = Expression::Kind::kLiterals, .index = append(literal_sets_, std::move(alternatives))});
}

ExprId GrammarTree::sequence(std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts[0];
  return add({.kind = Expression::Kind::kSequence, .children = std::move(parts)});
}

ExprId GrammarTree::choice(std::vector<ExprId> alternatives) {
  if (alternatives.empty()) return never();
  if (alternatives.size() == 1) return alternatives[0];
  return add({.kind = Expression::Kind::kChoice, .children = std::move(alternatives)});
}

ExprId GrammarTree::repeat(ExprId body, int64_t min, int64_t max) {
  if (max == 0) return empty();
  if (min == 1 && max == 1) return body;
  return add({.kind = Expression::Kind::kRepeat, .min = min, .max = max, .children = {body}});
}

ExprId GrammarTree::members(MemberList list) {
  budget_.allocate(static_cast<int64_t>(list.members.size() * sizeof(MemberList::Member)));
  return add({.kind = Expression::Kind::kMembers, .index = append(member_lists_, std::move(list))});
}

ExprId GrammarTree::graph(CharacterGraph graph) {
  for (const CharacterGraph::Node& node : graph.nodes)
    budget_.allocate(static_cast<int64_t>(sizeof(node) + node.edges.size() * sizeof(CharacterGraph::Edge)));
  return add({.kind = Expression::Kind::kGraph, .index = append(graphs_, std::move(graph))});
}

ExprId GrammarTree::text_through(std::vector<std::string> triggers, size_t which) {
  return add({.kind = Expression::Kind::kText,
      .index = append(texts_, FreeText{.triggers = std::move(triggers), .ends_with = which})});
}

ExprId GrammarTree::text_without(std::vector<std::string> triggers) {
  return add({.kind = Expression::Kind::kText,
      .index = append(texts_, FreeText{.triggers = std::move(triggers), .ends_with = std::nullopt})});
}

RuleId GrammarTree::declare_rule(std::string name) {
  budget_.allocate(static_cast<int64_t>(sizeof(Rule) + name.size()));
  return RuleId{append(rules_, Rule{std::move(name), std::nullopt})};
}

ExprId GrammarTree::rule(RuleId rule) {
  return add({.kind = Expression::Kind::kRule, .index = static_cast<int32_t>(rule)});
}

}  // namespace cheetah
