// SPDX-License-Identifier: MIT
// From the grammar's tree to states and edges. Invariant of every emit function: it adds no edge into `from`
// and none out of `to`, so pieces can share their ends.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/emitter.h"

namespace cheetah {
namespace {

const CodepointSet& longer_characters() {
  static const CodepointSet kLonger({{0x80, kLastCodepoint}});
  return kLonger;
}

}  // namespace

AutomatonParts Emitter::run() {
  parts_.text_classes.emplace_back();  // 0: no characters
  for (const GrammarTree::Rule& rule : tree_.rules()) {
    const int32_t index = add_rule(rule.name);
    if (!rule.body) throw Error(format("grammar: rule \"{}\" is not defined", printable(rule.name)));
    waiting_.emplace_back(index, *rule.body);
  }
  parts_.root = static_cast<int32_t>(tree_.root());
  while (!waiting_.empty()) {
    const auto [index, body] = waiting_.front();
    waiting_.pop_front();
    const Automaton::Rule rule = parts_.rules[static_cast<size_t>(index)];
    emit(body, rule.start, rule.final);
  }
  return std::move(parts_);
}

int32_t Emitter::add_state() {
  budget_.step();
  budget_.allocate(64);  // a state with its entries in the runtime's tables
  parts_.runs.emplace_back();
  budget_.check_states(parts_.num_states());
  return parts_.num_states() - 1;
}

void Emitter::add_byte(int32_t from, uint8_t low, uint8_t high, int32_t to) {
  budget_.step();
  budget_.allocate(2 * sizeof(std::pair<int32_t, ByteEdge>));
  parts_.bytes.push_back({from, {low, high, to}});
}

void Emitter::add_jump(int32_t from, int32_t to) {
  budget_.step();
  budget_.allocate(2 * sizeof(std::pair<int32_t, int32_t>));
  parts_.jumps.emplace_back(from, to);
}

void Emitter::add_call(int32_t from, int32_t rule, int32_t to) {
  budget_.step();
  budget_.allocate(2 * sizeof(std::pair<int32_t, Call>));
  parts_.calls.push_back({from, {rule, to, false}});
}

int32_t Emitter::add_rule(std::string name) {
  const int32_t start = add_state(), final = add_state();
  parts_.rules.push_back({std::move(name), start, final, 0});
  return static_cast<int32_t>(parts_.rules.size()) - 1;
}

void Emitter::emit(ExprId id, int32_t from, int32_t to) {
  const Expression& expression = tree_[id];
  switch (expression.kind) {
    case Kind::kEmpty:
      return add_jump(from, to);
    case Kind::kNever:
      return;
    case Kind::kCharacters:
      return emit_characters(tree_.character_class(expression.index), expression.index, from, to);
    case Kind::kLiterals:
      return emit_literals(tree_.literal_set(expression.index), from, to);
    case Kind::kSequence:
      return emit_sequence(expression, from, to);
    case Kind::kChoice:
      for (const ExprId child : expression.children) emit(child, from, to);
      return;
    case Kind::kRepeat:
      return emit_repeat(expression, from, to);
    case Kind::kRule:
      return add_call(from, expression.index, to);
    case Kind::kMembers:
      return emit_members(tree_.member_list(expression.index), from, to);
    case Kind::kGraph:
      return emit_graph(tree_.graph(expression.index), from, to);
    case Kind::kText:
      return emit_text(tree_.free_text(expression.index), from, to);
  }
}

void Emitter::emit_characters(const CodepointSet& set, int32_t class_index, int32_t from, int32_t to) {
  for (const CodepointSet::Range& range : set.ranges()) {
    if (range.first > 0x7F) break;
    add_byte(from, static_cast<uint8_t>(range.first), static_cast<uint8_t>(std::min(range.last, 0x7Fu)), to);
  }
  if (set.ranges().back().last > 0x7F) add_call(from, multibyte_rule(set, class_index), to);
}

// The longer characters of a class are one rule: a copy of the class then costs a call, not a dozen states.
int32_t Emitter::multibyte_rule(const CodepointSet& set, int32_t class_index) {
  const auto known = multibyte_rules_.find(class_index);
  if (known != multibyte_rules_.end()) return known->second;
  const int32_t rule = add_rule("a multi-byte character");
  multibyte_rules_.emplace(class_index, rule);
  emit_multibyte_rule(set, rule);
  return rule;
}

void Emitter::emit_multibyte_rule(const CodepointSet& set, int32_t rule) {
  const int32_t start = parts_.rules[static_cast<size_t>(rule)].start;
  const int32_t final = parts_.rules[static_cast<size_t>(rule)].final;
  std::map<std::array<int32_t, 3>, int32_t> inner;  // from, low, high: paths share what they begin with
  for (const CodepointSet::Range& range : set.ranges()) {
    if (range.last <= 0x7F) continue;
    for (const ByteRanges& path : utf8_ranges(std::max(range.first, 0x80u), range.last)) {
      int32_t at = start;
      for (int i = 0; i + 1 < path.length; ++i) {
        const auto [low, high] = path.bytes[i];
        const auto [found, fresh] = inner.try_emplace({at, low, high}, 0);
        if (fresh) add_byte(at, low, high, found->second = add_state());
        at = found->second;
      }
      add_byte(at, path.bytes[path.length - 1].low, path.bytes[path.length - 1].high, final);
    }
  }
}

void Emitter::emit_literals(const std::vector<std::string>& texts, int32_t from, int32_t to) {
  std::map<std::pair<int32_t, uint8_t>, int32_t> inner;
  for (const std::string& text : texts) {
    int32_t at = from;
    for (size_t i = 0; i + 1 < text.size(); ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      const auto [found, fresh] = inner.try_emplace({at, byte}, 0);
      if (fresh) add_byte(at, byte, byte, found->second = add_state());
      at = found->second;
    }
    if (text.empty()) {
      add_jump(from, to);
    } else {
      const auto last = static_cast<uint8_t>(text.back());
      add_byte(at, last, last, to);
    }
  }
}

void Emitter::emit_sequence(const Expression& expression, int32_t from, int32_t to) {
  if (expression.children.empty()) return add_jump(from, to);
  for (size_t i = 0; i < expression.children.size(); ++i) {
    const int32_t next = i + 1 == expression.children.size() ? to : add_state();
    emit(expression.children[i], from, next);
    from = next;
  }
}

// The characters of which one is enough for the whole expression; 0 when it takes more than one character.
int32_t Emitter::text_class_of(ExprId id) {
  const Expression& expression = tree_[id];
  if (expression.kind == Kind::kChoice) {
    for (const ExprId child : expression.children)
      if (tree_[child].kind == Kind::kCharacters) return text_class_of(child);
  }
  if (expression.kind != Kind::kCharacters) return 0;
  const auto [known, fresh] =
      text_classes_.try_emplace(expression.index, static_cast<int32_t>(parts_.text_classes.size()));
  if (fresh) {
    const CodepointSet& set = tree_.character_class(expression.index);
    TextClass text;
    for (uint8_t c = 1; c < 0x80; ++c)
      if (set.contains(c)) text.add(c);
    if (set.contains(longer_characters())) text.add_longer();
    parts_.text_classes.push_back(text);
  }
  return known->second;
}

// State (i, c): the declared members before i are decided, c stand there (counted as far as it matters).
void Emitter::emit_members(const MemberList& list, int32_t from, int32_t to) {
  const bool bounded = list.max != kUnbounded;
  const int64_t cap = bounded ? list.max : std::max<int64_t>(list.min, 1);
  const size_t n = list.members.size();
  const auto layers = static_cast<size_t>(cap) + 1;
  std::vector<int32_t> here(layers), next(layers);
  for (int32_t& state : here) state = add_state();
  add_jump(from, here[0]);
  for (size_t i = 0; i <= n; ++i) {
    const bool declared = i < n;
    if (declared)
      for (int32_t& state : next) state = add_state();
    const std::vector<int32_t>& after = declared ? next : here;
    const std::optional<ExprId> pair = declared ? std::optional(list.members[i].pair) : list.extra;
    std::vector<int32_t> entry(layers, -1);  // before the pair that leads to layer c: shared by its ways in
    for (size_t c = 0; pair && c < layers; ++c) {
      const size_t target = c + 1 < layers ? c + 1 : c;
      if (target == c && (bounded || cap == 0)) break;
      if (entry[target] < 0) {
        entry[target] = add_state();
        const int32_t done = add_state();
        emit(*pair, entry[target], done);
        add_jump(done, after[target]);
      }
      if (c == 0)
        add_jump(here[c], entry[target]);
      else
        emit(list.separator, here[c], entry[target]);
    }
    if (!declared) break;
    for (size_t c = 0; c < layers && !list.members[i].required; ++c) add_jump(here[c], next[c]);
    std::swap(here, next);
  }
  for (size_t c = 0; c < layers; ++c)
    if (static_cast<int64_t>(c) >= list.min) add_jump(here[c], to);
}

void Emitter::emit_graph(const CharacterGraph& graph, int32_t from, int32_t to) {
  std::vector<int32_t> state(graph.nodes.size());
  for (int32_t& s : state) s = add_state();
  add_jump(from, state[0]);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const CharacterGraph::Node& node = graph.nodes[i];
    for (const CharacterGraph::Edge& edge : node.edges)
      emit(edge.characters, state[i], state[static_cast<size_t>(edge.target)]);
    if (node.run > 0)
      parts_.runs[static_cast<size_t>(state[i])] = {
          static_cast<uint8_t>(std::min(node.run, kMaxRun)), text_class_of(node.edges[0].characters)};
    if (node.final) add_jump(state[i], to);
  }
}

namespace {

// Where a text stands among the triggers: the longest beginning of one that ends here (Aho, Corasick).
struct TriggerNode {
  std::array<int32_t, 128> next;
  int32_t shorter = 0;  // the longest proper end of it that begins a trigger too
  int32_t ends = -1;    // the trigger that ends here
};

std::vector<TriggerNode> trigger_nodes(const std::vector<std::string>& triggers) {
  constexpr int32_t kNone = -1;
  std::vector<TriggerNode> nodes(1);
  nodes[0].next.fill(kNone);
  for (size_t k = 0; k < triggers.size(); ++k) {
    int32_t at = 0;
    for (const char c : triggers[k]) {
      const auto byte = static_cast<uint8_t>(c);
      if (nodes[static_cast<size_t>(at)].next[byte] == kNone) {
        nodes[static_cast<size_t>(at)].next[byte] = static_cast<int32_t>(nodes.size());
        nodes.emplace_back();
        nodes.back().next.fill(kNone);
      }
      at = nodes[static_cast<size_t>(at)].next[byte];
    }
    if (nodes[static_cast<size_t>(at)].ends < 0)
      nodes[static_cast<size_t>(at)].ends = static_cast<int32_t>(k);
  }
  std::vector<int32_t> order = {0};  // shorter ones first
  for (size_t i = 0; i < order.size(); ++i) {
    TriggerNode& node = nodes[static_cast<size_t>(order[i])];
    const bool is_root = order[i] == 0;
    for (size_t byte = 0; byte < 128; ++byte) {
      const int32_t otherwise = is_root ? 0 : nodes[static_cast<size_t>(node.shorter)].next[byte];
      if (node.next[byte] == kNone) {
        node.next[byte] = otherwise;
        continue;
      }
      TriggerNode& child = nodes[static_cast<size_t>(node.next[byte])];
      child.shorter = otherwise;
      if (child.ends < 0) child.ends = nodes[static_cast<size_t>(otherwise)].ends;
      order.push_back(node.next[byte]);
    }
  }
  return nodes;
}

}  // namespace

void Emitter::emit_text(const FreeText& wanted, int32_t from, int32_t to) {
  const std::vector<TriggerNode> nodes = trigger_nodes(wanted.triggers);
  std::vector<int32_t> state(nodes.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].ends < 0) state[i] = add_state();
  add_jump(from, state[0]);
  const int32_t longer = multibyte_rule(longer_characters(), -1);
  // Text without the triggers' first characters cannot hold one.
  TextClass text;
  text.add_longer();
  for (uint8_t c = 1; c < 0x80; ++c)
    if (nodes[0].next[c] == 0) text.add(c);
  parts_.runs[static_cast<size_t>(state[0])] = {kMaxRun, static_cast<int32_t>(parts_.text_classes.size())};
  parts_.text_classes.push_back(text);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].ends >= 0) continue;
    for (size_t low = 0, high; low < 128; low = high) {
      for (high = low + 1; high < 128 && nodes[i].next[high] == nodes[i].next[low];) ++high;
      const auto target = static_cast<size_t>(nodes[i].next[low]);
      const int32_t ends = nodes[target].ends;
      const bool wanted_end = ends >= 0 && wanted.ends_with && static_cast<size_t>(ends) == *wanted.ends_with;
      if (ends >= 0 && !wanted_end) continue;
      add_byte(state[i], static_cast<uint8_t>(low), static_cast<uint8_t>(high - 1),
          wanted_end ? to : state[target]);
    }
    add_call(state[i], longer, state[0]);
    if (!wanted.ends_with) add_jump(state[i], to);
  }
}

AutomatonParts emit_automaton(const GrammarTree& tree, CompileBudget& budget) {
  return Emitter(tree, budget).run();
}

}  // namespace cheetah
