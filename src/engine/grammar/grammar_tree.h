// SPDX-License-Identifier: MIT
#pragma once
// The one form regexes, EBNF grammars and JSON schemas are turned into before they become an automaton.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/codepoints.h"
#include "engine/grammar/limits.h"

namespace cheetah {

enum class ExprId : int32_t {};
enum class RuleId : int32_t {};

constexpr int64_t kUnbounded = -1;

// The members of a JSON object in their declared order, comma-separated: each optional one may be left out,
// then any number of extra ones, with bounds on their number.
struct MemberList {
  struct Member {
    ExprId pair;  // key, colon and value
    bool required;
  };
  std::vector<Member> members;
  std::optional<ExprId> extra;  // one member beyond the declared ones
  ExprId separator;
  int64_t min = 0, max = kUnbounded;
};

// States and the characters between them, for what is easier drawn than written. State 0 is the start.
struct CharacterGraph {
  struct Edge {
    ExprId characters;
    int32_t target;
  };
  struct Node {
    std::vector<Edge> edges;
    bool final = false;
    int64_t run = 0;  // so many characters of edges[0] in a row are accepted from here
  };
  std::vector<Node> nodes;
};

struct FreeText {
  std::vector<std::string> triggers;
  std::optional<size_t> ends_with;  // the trigger that ends it; nullopt: none may come
};

struct Expression {
  enum class Kind : uint8_t {
    kEmpty,
    kNever,
    kCharacters,  // one character of classes[index]
    kLiterals,    // one string of literal_sets[index]
    kSequence,
    kChoice,
    kRepeat,   // children[0], min to max times
    kRule,     // rules[index]
    kMembers,  // member_lists[index]
    kGraph,    // graphs[index]
    kText,     // of texts[index]
  };
  Kind kind = Kind::kEmpty;
  int32_t index = 0;
  int64_t min = 0, max = 0;
  std::vector<ExprId> children = {};
};

// Expressions are immutable and may be shared: the tree is a graph without cycles, recursion goes through
// rules.
class GrammarTree {
 public:
  explicit GrammarTree(CompileBudget& budget) : budget_(budget) {}

  ExprId empty() { return add({}); }
  ExprId never() { return add({.kind = Expression::Kind::kNever}); }
  ExprId characters(CodepointSet set);
  ExprId literal(std::string bytes);
  ExprId literals(std::vector<std::string> alternatives);
  ExprId sequence(std::vector<ExprId> parts);
  ExprId choice(std::vector<ExprId> alternatives);
  ExprId repeat(ExprId body, int64_t min, int64_t max);
  ExprId optional(ExprId body) { return choice({body, empty()}); }
  ExprId members(MemberList list);
  ExprId graph(CharacterGraph graph);
  // Any text through the first of the triggers, where that is the one of this index; ASCII, none empty.
  ExprId text_through(std::vector<std::string> triggers, size_t which);
  ExprId text_without(std::vector<std::string> triggers);  // any text with none of them

  RuleId declare_rule(std::string name);
  void define_rule(RuleId rule, ExprId body) { rules_[static_cast<size_t>(rule)].body = body; }
  ExprId rule(RuleId rule);
  void set_root(RuleId rule) { root_ = rule; }

  struct Rule {
    std::string name;  // as messages show it
    std::optional<ExprId> body;
  };
  const Expression& operator[](ExprId id) const { return expressions_[static_cast<size_t>(id)]; }
  const std::vector<Rule>& rules() const { return rules_; }
  RuleId root() const { return root_; }
  const CodepointSet& character_class(int32_t index) const { return classes_[static_cast<size_t>(index)]; }
  const std::vector<std::string>& literal_set(int32_t index) const {
    return literal_sets_[static_cast<size_t>(index)];
  }
  const MemberList& member_list(int32_t index) const { return member_lists_[static_cast<size_t>(index)]; }
  const CharacterGraph& graph(int32_t index) const { return graphs_[static_cast<size_t>(index)]; }
  const FreeText& free_text(int32_t index) const { return texts_[static_cast<size_t>(index)]; }
  CompileBudget& budget() { return budget_; }

 private:
  ExprId add(Expression expression);

  CompileBudget& budget_;
  std::vector<Expression> expressions_;
  std::vector<CodepointSet> classes_;
  std::vector<std::vector<std::string>> literal_sets_;
  std::vector<MemberList> member_lists_;
  std::vector<CharacterGraph> graphs_;
  std::vector<FreeText> texts_;
  std::vector<Rule> rules_;
  RuleId root_{};
};

}  // namespace cheetah
