// SPDX-License-Identifier: MIT
#include "engine/grammar/automaton.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

// The states from which the end of their rule can be reached; without `through_bytes`, reached for nothing.
class FinishSearch {
 public:
  FinishSearch(const AutomatonParts& parts, bool through_bytes) : parts_(parts) {
    const int32_t n = parts.num_states();
    std::vector<std::pair<int32_t, int32_t>> before;  // target, source
    for (const auto& [from, to] : parts.jumps) before.emplace_back(to, from);
    if (through_bytes)
      for (const auto& [from, edge] : parts.bytes) before.emplace_back(edge.target, from);
    before_ = PerState<int32_t>(n, before);
    std::vector<std::pair<int32_t, int32_t>> by_return, by_callee;
    for (int32_t i = 0; i < static_cast<int32_t>(parts.calls.size()); ++i) {
      const Call& call = parts.calls[static_cast<size_t>(i)].second;
      by_return.emplace_back(call.back_to, i);
      by_callee.emplace_back(parts.rules[static_cast<size_t>(call.rule)].start, i);
    }
    calls_by_return_ = PerState<int32_t>(n, by_return);
    calls_by_callee_ = PerState<int32_t>(n, by_callee);
  }

  std::vector<uint8_t> run(CompileBudget& budget) {
    finishes_.assign(static_cast<size_t>(parts_.num_states()), 0);
    for (const Automaton::Rule& rule : parts_.rules) mark(rule.final);
    while (!waiting_.empty()) {
      const int32_t state = waiting_.back();
      waiting_.pop_back();
      budget.step();
      for (const int32_t source : before_[state]) mark(source);
      for (const int32_t call : calls_by_return_[state]) try_call(call);
      for (const int32_t call : calls_by_callee_[state]) try_call(call);
    }
    return std::move(finishes_);
  }

 private:
  void mark(int32_t state) {
    if (finishes_[static_cast<size_t>(state)]) return;
    finishes_[static_cast<size_t>(state)] = 1;
    waiting_.push_back(state);
  }
  void try_call(int32_t index) {
    const auto& [from, call] = parts_.calls[static_cast<size_t>(index)];
    const int32_t start = parts_.rules[static_cast<size_t>(call.rule)].start;
    if (finishes_[static_cast<size_t>(start)] && finishes_[static_cast<size_t>(call.back_to)]) mark(from);
  }

  const AutomatonParts& parts_;
  PerState<int32_t> before_, calls_by_return_, calls_by_callee_;
  std::vector<uint8_t> finishes_;
  std::vector<int32_t> waiting_;
};

// Drops every edge on which no sentence could be finished.
void trim(AutomatonParts& parts, const std::vector<uint8_t>& finishes) {
  const auto dead = [&](int32_t state) { return !finishes[static_cast<size_t>(state)]; };
  std::erase_if(parts.bytes, [&](const auto& edge) { return dead(edge.second.target); });
  std::erase_if(parts.jumps, [&](const auto& edge) { return dead(edge.second); });
  std::erase_if(parts.calls, [&](const auto& edge) {
    return dead(edge.second.back_to) || dead(parts.rules[static_cast<size_t>(edge.second.rule)].start);
  });
}

// A call of a rule that may match nothing can be passed over. The runtime relies on these jumps: it never
// takes a callee to its end before a byte was read.
// Returns whether the root is such a rule.
bool add_jumps_over_nullable(AutomatonParts& parts, CompileBudget& budget) {
  const std::vector<uint8_t> empty = FinishSearch(parts, false).run(budget);
  for (const auto& [from, call] : parts.calls)
    if (empty[static_cast<size_t>(parts.rules[static_cast<size_t>(call.rule)].start)])
      parts.jumps.emplace_back(from, call.back_to);
  budget.allocate(static_cast<int64_t>(parts.calls.size()) * 8);
  return empty[static_cast<size_t>(parts.rules[static_cast<size_t>(parts.root)].start)] != 0;
}

// Orders rules so that a rule called before a byte is read comes after its caller, and finds left
// recursion.
class LeftCornerOrder {
 public:
  LeftCornerOrder(Automaton& automaton, CompileBudget& budget) : automaton_(automaton), budget_(budget) {}

  void run() {
    const size_t n = automaton_.rules.size();
    called_first_.resize(n);
    for (size_t rule = 0; rule < n; ++rule) find_first_calls(rule);
    color_.assign(n, Color::kNew);
    next_rank_ = static_cast<int32_t>(n);
    for (size_t rule = 0; rule < n; ++rule)
      if (color_[rule] == Color::kNew) visit(static_cast<int32_t>(rule));
  }

 private:
  enum class Color : uint8_t { kNew, kOpen, kDone };

  void find_first_calls(size_t rule) {
    std::vector<int32_t> waiting = {automaton_.rules[rule].start};
    std::set<int32_t> seen(waiting.begin(), waiting.end()), callees;
    while (!waiting.empty()) {
      const int32_t state = waiting.back();
      waiting.pop_back();
      budget_.step(1 + static_cast<int64_t>(automaton_.calls[state].size()));
      for (const Call& call : automaton_.calls[state]) callees.insert(call.rule);
      for (const int32_t next : automaton_.jumps[state])
        if (seen.insert(next).second) waiting.push_back(next);
    }
    called_first_[rule].assign(callees.begin(), callees.end());
  }

  void visit(int32_t root) {
    struct Frame {
      int32_t rule;
      size_t next;
    };
    std::vector<Frame> path = {{root, 0}};
    color_[static_cast<size_t>(root)] = Color::kOpen;
    while (!path.empty()) {
      Frame& top = path.back();
      const auto rule = static_cast<size_t>(top.rule);
      if (top.next == called_first_[rule].size()) {
        color_[rule] = Color::kDone;
        automaton_.rules[rule].rank = --next_rank_;
        path.pop_back();
        continue;
      }
      const int32_t callee = called_first_[rule][top.next++];
      Color& color = color_[static_cast<size_t>(callee)];
      if (color == Color::kOpen) {
        std::string names;
        for (const Frame& frame : path)
          if (!names.empty() || frame.rule == callee) names += name(frame.rule) + " -> ";
        throw Error(format("grammar: left recursion through {}", printable(names + name(callee), 200)));
      }
      if (color == Color::kNew) {
        color = Color::kOpen;
        path.push_back({callee, 0});
      }
    }
  }

  const std::string& name(int32_t rule) const { return automaton_.rules[static_cast<size_t>(rule)].name; }

  Automaton& automaton_;
  CompileBudget& budget_;
  std::vector<std::vector<int32_t>> called_first_;
  std::vector<Color> color_;
  int32_t next_rank_ = 0;
};

void find_byte_classes(Automaton& automaton, const AutomatonParts& parts) {
  std::array<bool, 257> cut{};
  for (const auto& [from, edge] : parts.bytes) cut[edge.low] = cut[edge.high + 1u] = true;
  for (int byte = 0; byte < 256; ++byte) {
    if (byte == 0 || cut[static_cast<size_t>(byte)])
      automaton.class_representative.push_back(static_cast<uint8_t>(byte));
    automaton.byte_class[static_cast<size_t>(byte)] =
        static_cast<uint8_t>(automaton.class_representative.size() - 1);
  }
}

bool only_ends(const Automaton& automaton, int32_t state) {
  for (int hops = 0; hops < 32; ++hops) {
    const auto s = static_cast<size_t>(state);
    if (!automaton.bytes[state].empty() || !automaton.calls[state].empty()) return false;
    if (automaton.is_final[s]) return automaton.jumps[state].empty();
    if (automaton.jumps[state].size() != 1) return false;
    state = automaton.jumps[state][0];
  }
  return false;
}

void require_productive(const AutomatonParts& parts, const std::vector<uint8_t>& finishes, bool require_all) {
  const auto fail = [](const Automaton::Rule& rule) {
    throw Error(format("grammar: rule \"{}\" can never finish", printable(rule.name)));
  };
  const auto productive = [&](const Automaton::Rule& rule) {
    return finishes[static_cast<size_t>(rule.start)] != 0;
  };
  if (require_all)
    for (const Automaton::Rule& rule : parts.rules)
      if (!productive(rule)) fail(rule);
  const Automaton::Rule& root = parts.rules[static_cast<size_t>(parts.root)];
  if (!productive(root)) fail(root);
}

}  // namespace

Automaton build_automaton(const GrammarTree& tree, CompileBudget& budget, bool require_all) {
  AutomatonParts parts = emit_automaton(tree, budget);
  const std::vector<uint8_t> finishes = FinishSearch(parts, true).run(budget);
  require_productive(parts, finishes, require_all);
  trim(parts, finishes);

  Automaton automaton;
  automaton.matches_empty = add_jumps_over_nullable(parts, budget);
  automaton.root = parts.root;
  automaton.num_states = parts.num_states();
  automaton.bytes = PerState<ByteEdge>(automaton.num_states, parts.bytes);
  automaton.jumps = PerState<int32_t>(automaton.num_states, parts.jumps);
  automaton.calls = PerState<Call>(automaton.num_states, parts.calls);
  automaton.is_final.assign(static_cast<size_t>(automaton.num_states), 0);
  for (const Automaton::Rule& rule : parts.rules) automaton.is_final[static_cast<size_t>(rule.final)] = 1;
  for (auto& [from, call] : parts.calls) call.tail = only_ends(automaton, call.back_to);
  automaton.calls = PerState<Call>(automaton.num_states, parts.calls);
  find_byte_classes(automaton, parts);
  automaton.rules = std::move(parts.rules);
  automaton.runs = std::move(parts.runs);
  automaton.text_classes = std::move(parts.text_classes);
  LeftCornerOrder(automaton, budget).run();
  return automaton;
}

}  // namespace cheetah
