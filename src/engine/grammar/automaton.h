// SPDX-License-Identifier: MIT
#pragma once
// A pushdown automaton over bytes: one small nondeterministic automaton per rule, and calls between them.
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/grammar/grammar_tree.h"
#include "engine/grammar/text_class.h"

namespace cheetah {

// Lists of different lengths, one per state, in one array.
template <class T>
class PerState {
 public:
  PerState() = default;
  PerState(int32_t num_states, std::span<const std::pair<int32_t, T>> entries)
      : begin_(static_cast<size_t>(num_states) + 1), values_(entries.size()) {
    for (const auto& [state, value] : entries) ++begin_[static_cast<size_t>(state) + 1];
    for (size_t i = 1; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    std::vector<int32_t> next(begin_.begin(), begin_.end() - 1);
    for (const auto& [state, value] : entries)
      values_[static_cast<size_t>(next[static_cast<size_t>(state)]++)] = value;
  }
  std::span<const T> operator[](int32_t state) const {
    const auto s = static_cast<size_t>(state);
    return {values_.data() + begin_[s], static_cast<size_t>(begin_[s + 1] - begin_[s])};
  }

 private:
  std::vector<int32_t> begin_;
  std::vector<T> values_;
};

struct ByteEdge {
  uint8_t low, high;
  int32_t target;
};

struct Call {
  int32_t rule;
  int32_t back_to;  // the state after the callee is done
  bool tail;        // nothing but the end of the rule follows: the caller's frame need not be kept
};

// From some states any text of these characters is accepted, up to a length, whatever it is.
struct TextRun {
  uint8_t length = 0;  // characters
  int32_t text_class = 0;
};

// Immutable after build_automaton. Every state can be reached and every state can still finish, so a
// configuration with any state left in it is a prefix of some sentence.
struct Automaton {
  struct Rule {
    std::string name;
    int32_t start = 0, final = 0;
    int32_t rank = 0;  // a rule that is called before a byte is read has a higher rank than its caller
  };
  std::vector<Rule> rules;
  int32_t root = 0;
  bool matches_empty = false;  // the empty text is a sentence
  int32_t num_states = 0;
  PerState<ByteEdge> bytes;
  PerState<int32_t> jumps;  // without reading a byte
  PerState<Call> calls;
  std::vector<uint8_t> is_final;
  std::vector<TextRun> runs;  // by state
  std::vector<TextClass> text_classes;

  std::array<uint8_t, 256> byte_class{};      // bytes that no edge tells apart
  std::vector<uint8_t> class_representative;  // a byte of each class
  int num_classes() const { return static_cast<int>(class_representative.size()); }
};

// Throws Error when the root can never finish, a rule is left-recursive or a limit is passed.
// `require_all`: an unproductive rule anywhere is an error, not just dropped.
Automaton build_automaton(const GrammarTree& tree, CompileBudget& budget, bool require_all);

// What build_automaton makes the automaton from.
struct AutomatonParts {
  std::vector<Automaton::Rule> rules;
  std::vector<std::pair<int32_t, ByteEdge>> bytes;
  std::vector<std::pair<int32_t, int32_t>> jumps;
  std::vector<std::pair<int32_t, Call>> calls;
  std::vector<TextRun> runs;  // one per state
  std::vector<TextClass> text_classes;
  int32_t root = 0;
  int32_t num_states() const { return static_cast<int32_t>(runs.size()); }
};

AutomatonParts emit_automaton(const GrammarTree& tree, CompileBudget& budget);

}  // namespace cheetah
