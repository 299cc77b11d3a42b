// SPDX-License-Identifier: MIT
#include "engine/grammar/bounded_regex.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "engine/grammar/json_text.h"
#include "engine/grammar/regex.h"

namespace cheetah {
namespace {

// A regex as an automaton over characters, which is what lengths are counted in.
class CharacterAutomaton {
 public:
  explicit CharacterAutomaton(GrammarTree& plain) : plain_(plain) {}

  void build(ExprId regex) {
    const int32_t start = add_state();
    final_ = add_state();
    emit(regex, start, final_);
  }
  struct Edge {
    int32_t class_index, target;
    auto operator<=>(const Edge&) const = default;
  };
  // The edges out of a state and of what it reaches for nothing; true if the end is among those.
  bool edges_of(int32_t state, std::set<Edge>& edges) const {
    std::set<int32_t> seen = {state};
    for (std::vector<int32_t> waiting = {state}; !waiting.empty();) {
      const State& at = states_[static_cast<size_t>(waiting.back())];
      waiting.pop_back();
      plain_.budget().step(1 + static_cast<int64_t>(at.edges.size() + at.jumps.size()));
      edges.insert(at.edges.begin(), at.edges.end());
      for (const int32_t next : at.jumps)
        if (seen.insert(next).second) waiting.push_back(next);
    }
    return seen.contains(final_);
  }

 private:
  struct State {
    std::vector<Edge> edges;
    std::vector<int32_t> jumps;
  };

  int32_t add_state() {
    plain_.budget().step();
    plain_.budget().allocate(sizeof(State) + 32);
    states_.emplace_back();
    plain_.budget().check_states(static_cast<int64_t>(states_.size()));
    return static_cast<int32_t>(states_.size()) - 1;
  }
  void jump(int32_t from, int32_t to) { states_[static_cast<size_t>(from)].jumps.push_back(to); }

  // No edge into `from` or out of `to`, as in emit_automaton.cpp. parse_regex makes these kinds only.
  void emit(ExprId id, int32_t from, int32_t to) {
    const Expression& expression = plain_[id];
    switch (expression.kind) {
      case Expression::Kind::kCharacters:
        return states_[static_cast<size_t>(from)].edges.push_back({expression.index, to});
      case Expression::Kind::kEmpty:
        return jump(from, to);
      case Expression::Kind::kChoice:
        for (const ExprId child : expression.children) emit(child, from, to);
        return;
      case Expression::Kind::kSequence:
        for (size_t i = 0; i < expression.children.size(); ++i) {
          const int32_t next = i + 1 == expression.children.size() ? to : add_state();
          emit(expression.children[i], from, next);
          from = next;
        }
        return;
      case Expression::Kind::kRepeat:
        return emit_repeat(expression, from, to);
      default:
        return;  // kNever
    }
  }

  void emit_repeat(const Expression& expression, int32_t from, int32_t to) {
    const bool endless = expression.max == kUnbounded;
    const int64_t copies = endless ? expression.min : expression.max;
    int32_t at = add_state();
    jump(from, at);
    for (int64_t i = 0; i < copies; ++i) {
      if (i >= expression.min) jump(at, to);
      const int32_t next = add_state();
      emit(expression.children[0], at, next);
      at = next;
    }
    jump(at, to);
    if (!endless) return;
    const int32_t after = add_state();
    emit(expression.children[0], at, after);
    jump(after, at);
  }

  GrammarTree& plain_;
  std::vector<State> states_;
  int32_t final_ = 0;
};

using Counted = std::pair<int32_t, int64_t>;  // a state of the regex and the characters so far

std::vector<uint8_t> nodes_that_finish(const CharacterGraph& graph) {
  std::vector<std::vector<int32_t>> before(graph.nodes.size());
  std::vector<uint8_t> finishes(graph.nodes.size(), 0);
  std::vector<int32_t> waiting;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const CharacterGraph::Edge& edge : graph.nodes[i].edges)
      before[static_cast<size_t>(edge.target)].push_back(static_cast<int32_t>(i));
    if (graph.nodes[i].final) waiting.push_back(static_cast<int32_t>(i));
  }
  while (!waiting.empty()) {
    const auto at = static_cast<size_t>(waiting.back());
    waiting.pop_back();
    if (finishes[at]) continue;
    finishes[at] = 1;
    waiting.insert(waiting.end(), before[at].begin(), before[at].end());
  }
  return finishes;
}

// Where the regex stays in its state (the inside of [a-z]*), the same characters may go on while the text can
// still be finished.
void mark_runs(CharacterGraph& graph, const std::vector<Counted>& places) {
  constexpr int64_t kEndless = 1 << 20;
  const std::vector<uint8_t> finishes = nodes_that_finish(graph);
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    CharacterGraph::Node& node = graph.nodes[i];
    const auto stays =
        std::find_if(node.edges.begin(), node.edges.end(), [&](const CharacterGraph::Edge& edge) {
          return places[static_cast<size_t>(edge.target)].first == places[i].first;
        });
    if (stays == node.edges.end()) continue;
    const auto next = static_cast<size_t>(stays->target);
    if (finishes[next]) node.run = next == i ? kEndless : next > i ? 1 + graph.nodes[next].run : 0;
    std::iter_swap(node.edges.begin(), stays);
  }
}

}  // namespace

// State (s, c): the regex is at s after c characters, counted only as far as a bound asks for it.
ExprId bounded_json_pattern(std::string_view pattern, int64_t min, int64_t max, GrammarTree& tree) {
  GrammarTree plain(tree.budget());
  CharacterAutomaton automaton(plain);
  automaton.build(parse_regex(pattern, plain, {.in_json_string = false, .search = true}));
  const int64_t last = max == kUnbounded ? min : max;
  std::map<int32_t, ExprId> characters;
  std::map<Counted, int32_t> known = {{{0, 0}, 0}};
  std::vector<Counted> waiting = {{0, 0}};
  CharacterGraph graph;
  graph.nodes.resize(1);
  for (size_t i = 0; i < waiting.size(); ++i) {
    const auto [state, count] = waiting[i];
    std::set<CharacterAutomaton::Edge> edges;
    graph.nodes[i].final = automaton.edges_of(state, edges) && count >= min;
    if (max != kUnbounded && count == max) continue;
    for (const CharacterAutomaton::Edge& edge : edges) {
      const Counted next = {edge.target, std::min(count + 1, last)};
      const auto [found, fresh] = known.try_emplace(next, static_cast<int32_t>(waiting.size()));
      if (fresh) {
        waiting.push_back(next);
        graph.nodes.emplace_back();
        tree.budget().check_states(static_cast<int64_t>(waiting.size()));
      }
      if (!characters.contains(edge.class_index))
        characters[edge.class_index] = json_characters(tree, plain.character_class(edge.class_index));
      graph.nodes[i].edges.push_back({characters[edge.class_index], found->second});
      tree.budget().step();
      tree.budget().allocate(64);
    }
  }
  mark_runs(graph, waiting);
  return tree.graph(std::move(graph));
}

}  // namespace cheetah
