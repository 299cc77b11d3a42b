// SPDX-License-Identifier: MIT
#pragma once
// From the grammar's tree to states and edges. Private to the emit_*.cpp files. Invariant of every emit
// function: it adds no edge into `from` and none out of `to`, so pieces can share their ends.
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "engine/grammar/automaton.h"

namespace cheetah {

class Emitter {
 public:
  Emitter(const GrammarTree& tree, CompileBudget& budget) : tree_(tree), budget_(budget) {}
  AutomatonParts run();

 private:
  using Kind = Expression::Kind;
  static constexpr int64_t kMaxRun = 254;  // below TokenVocabulary::kNotText

  int32_t add_state();
  void add_byte(int32_t from, uint8_t low, uint8_t high, int32_t to);
  void add_jump(int32_t from, int32_t to);
  void add_call(int32_t from, int32_t rule, int32_t to);
  int32_t add_rule(std::string name);

  void emit(ExprId id, int32_t from, int32_t to);
  void emit_characters(const CodepointSet& set, int32_t class_index, int32_t from, int32_t to);
  void emit_multibyte_rule(const CodepointSet& set, int32_t rule);
  void emit_literals(const std::vector<std::string>& texts, int32_t from, int32_t to);
  void emit_sequence(const Expression& expression, int32_t from, int32_t to);
  void emit_repeat(const Expression& expression, int32_t from, int32_t to);
  void emit_members(const MemberList& list, int32_t from, int32_t to);
  void emit_graph(const CharacterGraph& graph, int32_t from, int32_t to);
  void emit_text(const FreeText& wanted, int32_t from, int32_t to);

  // emit_repeat.cpp
  void emit_counted(ExprId body, int64_t min, int64_t max, int32_t from, int32_t to);
  void emit_long_repeat(ExprId body, int64_t min, int64_t max, int32_t from, int32_t to);
  int32_t chunk_rule(ExprId body);
  bool may_be_empty(ExprId id, int depth) const;

  int32_t multibyte_rule(const CodepointSet& set, int32_t class_index);
  int32_t body_rule(ExprId body);
  int64_t copy_cost(ExprId id) const;
  int32_t text_class_of(ExprId id);

  const GrammarTree& tree_;
  CompileBudget& budget_;
  AutomatonParts parts_;
  std::map<int32_t, int32_t> multibyte_rules_;  // by class
  std::map<int32_t, int32_t> text_classes_;     // by class of characters
  std::map<ExprId, int32_t> body_rules_, chunk_rules_;
  std::deque<std::pair<int32_t, ExprId>> waiting_;  // rules whose body is still to be emitted
};

}  // namespace cheetah
