// SPDX-License-Identifier: MIT
// Repetition: chains of copies, and chains of calls where those would be long.
#include <algorithm>

#include "engine/grammar/emitter.h"

namespace cheetah {
namespace {

// A body larger than this is not copied for each repetition but made a rule and called.
constexpr int64_t kLargestCopiedBody = 6;
// A longer repetition calls a rule of kChunk copies: its states are those of two chunks and one a call.
constexpr int64_t kLongestChain = 2000;
constexpr int64_t kChunk = 1000;
constexpr int kMaxDepth = 64;

}  // namespace

int64_t Emitter::copy_cost(ExprId id) const {
  const Expression& expression = tree_[id];
  int64_t cost = 1;
  if (expression.kind == Kind::kMembers || expression.kind == Kind::kRepeat) return kLargestCopiedBody + 1;
  if (expression.kind == Kind::kGraph || expression.kind == Kind::kText) return kLargestCopiedBody + 1;
  if (expression.kind == Kind::kLiterals) {
    cost = 0;
    for (const std::string& text : tree_.literal_set(expression.index)) {
      cost += static_cast<int64_t>(text.size());
      if (cost > kLargestCopiedBody) break;
    }
  }
  for (const ExprId child : expression.children) {
    if (cost > kLargestCopiedBody) break;
    cost += copy_cost(child);
  }
  return cost;
}

int32_t Emitter::body_rule(ExprId body) {
  const auto [found, fresh] = body_rules_.try_emplace(body, 0);
  if (fresh) {
    found->second = add_rule("a repeated group");
    waiting_.emplace_back(found->second, body);
  }
  return found->second;
}

void Emitter::emit_repeat(const Expression& expression, int32_t from, int32_t to) {
  const ExprId body = expression.children[0];
  const int64_t most = std::max(expression.min, expression.max);
  if (most <= kLongestChain) return emit_counted(body, expression.min, expression.max, from, to);
  if (may_be_empty(body, 0)) budget_.check_nullable_copies(most);
  emit_long_repeat(body, expression.min, expression.max, from, to);
}

// A chain of copies.
void Emitter::emit_counted(ExprId body, int64_t min, int64_t max, int32_t from, int32_t to) {
  const bool endless = max == kUnbounded;
  const int64_t copies = endless ? min : max;
  const bool call = copies > 2 && copy_cost(body) > kLargestCopiedBody;
  const int32_t text_class = text_class_of(body);
  const auto emit_body = [&](int32_t before, int32_t after) {
    if (call)
      add_call(before, body_rule(body), after);
    else
      emit(body, before, after);
  };
  int32_t at = add_state();
  add_jump(from, at);
  for (int64_t i = 0; i <= copies; ++i) {
    const int64_t left = endless ? kMaxRun : std::min(kMaxRun, max - i);
    if (text_class > 0) parts_.runs[static_cast<size_t>(at)] = {static_cast<uint8_t>(left), text_class};
    if (i >= min) add_jump(at, to);
    if (i == copies) break;
    const int32_t next = add_state();
    emit_body(at, next);
    at = next;
  }
  if (!endless) return;
  // The body may not be emitted from a state to itself: its own loops would run together with this one.
  const int32_t after = add_state();
  emit_body(at, after);
  add_jump(after, at);
}

// First all that there must be. Then, after any number of whole chunks but the last possible, less than one
// more; after that one, the rest.
void Emitter::emit_long_repeat(ExprId body, int64_t min, int64_t max, int32_t from, int32_t to) {
  const int32_t chunk = chunk_rule(body);
  int32_t at = add_state();
  add_jump(from, at);
  const auto call_chunk = [&] {
    const int32_t next = add_state();
    add_call(at, chunk, next);
    at = next;
  };
  for (int64_t i = 0; i < min / kChunk; ++i) call_chunk();
  if (min % kChunk > 0) {
    const int32_t next = add_state();
    emit_counted(body, min % kChunk, min % kChunk, at, next);
    at = next;
  }
  if (max == kUnbounded) return emit_counted(body, 0, kUnbounded, at, to);
  const int64_t chunks = (max - min) / kChunk;
  if (chunks > 0) {
    const int32_t tail = add_state();
    emit_counted(body, 0, kChunk - 1, tail, to);
    for (int64_t i = 0; i < chunks; ++i) {
      add_jump(at, tail);
      call_chunk();
    }
  }
  emit_counted(body, 0, (max - min) % kChunk, at, to);
}

int32_t Emitter::chunk_rule(ExprId body) {
  const auto [found, fresh] = chunk_rules_.try_emplace(body, 0);
  if (!fresh) return found->second;
  const int32_t rule = add_rule("many of a repeated group");
  found->second = rule;
  const Automaton::Rule ends = parts_.rules[static_cast<size_t>(rule)];
  emit_counted(body, kChunk, kChunk, ends.start, ends.final);
  return rule;
}

// Perhaps: what is nested too deep to look at may be.
bool Emitter::may_be_empty(ExprId id, int depth) const {
  const Expression& expression = tree_[id];
  const auto empty = [&](ExprId child) { return may_be_empty(child, depth + 1); };
  budget_.step();
  if (depth > kMaxDepth) return true;
  switch (expression.kind) {
    case Kind::kNever:
    case Kind::kCharacters:
      return false;
    case Kind::kText:
      return !tree_.free_text(expression.index).ends_with;
    case Kind::kLiterals:
      return std::ranges::any_of(
          tree_.literal_set(expression.index), [](const std::string& text) { return text.empty(); });
    case Kind::kSequence:
      return std::ranges::all_of(expression.children, empty);
    case Kind::kChoice:
      return std::ranges::any_of(expression.children, empty);
    case Kind::kRepeat:
      return expression.min == 0 || empty(expression.children[0]);
    case Kind::kRule: {
      const auto& body = tree_.rules()[static_cast<size_t>(expression.index)].body;
      return body && empty(*body);
    }
    case Kind::kGraph:
      return tree_.graph(expression.index).nodes.front().final;
    case Kind::kEmpty:
    case Kind::kMembers:
      break;
  }
  return true;
}

}  // namespace cheetah
