// SPDX-License-Identifier: MIT
// The frame of a rendering, and the statements.
#include "model/template/interpreter.h"

#include <algorithm>

#include "base/format.h"
#include "model/template/interpreter_guards.h"

namespace cheetah::jinja {
Interpreter::Interpreter(const Program& program, int64_t now)
    : program_(program), runtime_(program.limits, now) {}

// Macros hold the scopes that hold them: emptying what was captured lets everything go.
Interpreter::~Interpreter() {
  for (const auto& scope : kept_scopes_) scope->variables.clear();
}

std::string Interpreter::render(const Dict& variables) {
  scope_ = std::make_shared<Scope>();
  for (size_t i = 0; i < program_.symbols.names.size(); ++i) {
    const std::string& name = program_.symbols.names[i];
    if (const Value* value = variables.find(name))
      scope_->set(static_cast<int>(i), *value);
    else if (auto global = find_global(name))
      scope_->set(static_cast<int>(i), *global);
  }
  std::string out;
  out_ = &out;
  run(program_.body);
  return out;
}

void Interpreter::write(std::string_view text) {
  const auto size = static_cast<int64_t>(text.size());
  runtime_.budget().bytes(size);
  if (static_cast<int64_t>(out_->size()) + size > runtime_.max_text_bytes())
    fail(format("output limit exceeded: more than {} bytes", runtime_.max_text_bytes()));
  out_->append(text);
}

void Interpreter::write(const Value& value) {
  if (value.is_string())
    write(value.bytes());
  else
    write(runtime_.str(value));
}

Interpreter::Flow Interpreter::run(const Body& body) {
  for (const auto& statement : body)
    if (const Flow flow = run(*statement); flow != Flow::kNext) return flow;
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run(const Statement& statement) {
  const DepthGuard guard(*this);
  runtime_.budget().step();
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::kText:
      write(statement.text);
      break;
    case StatementKind::kOutput:
      for (const ExprPtr& expression : statement.expressions) write(eval(*expression));
      break;
    case StatementKind::kIf:
      return run_if(statement);
    case StatementKind::kFor:
      return run_for(statement);
    case StatementKind::kSet:
      assign(*statement.target, eval(*statement.value));
      break;
    case StatementKind::kSetBlock:
      return run_set_block(statement);
    case StatementKind::kMacro:
      scope_->set(statement.symbol, Value::object(make_macro(statement)));
      break;
    case StatementKind::kCallBlock:
      run_call_block(statement);
      break;
    case StatementKind::kFilterBlock:
      return run_filter_block(statement);
    case StatementKind::kWith:
      return run_with(statement);
    case StatementKind::kScope:
      for (const ExprPtr& expression : statement.expressions) eval(*expression);
      return run_scope(statement.body, scope_);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
    case StatementKind::kDo:
      eval(*statement.value);
      break;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_if(const Statement& statement) {
  for (const Branch& branch : statement.branches)
    if (!branch.condition || truthy(eval(*branch.condition))) return run(branch.body);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_scope(const Body& body, std::shared_ptr<Scope> parent) {
  auto inner = std::make_shared<Scope>();
  inner->parent = std::move(parent);
  const std::shared_ptr<Scope> outer = std::exchange(scope_, std::move(inner));
  const Flow flow = run(body);
  scope_ = outer;
  return flow;
}

Interpreter::Flow Interpreter::run_for(const Statement& statement) {
  std::vector<Value> items = runtime_.iterate(eval(*statement.value));
  if (statement.condition) items = filtered(statement, std::move(items));
  if (items.empty()) return run_scope(statement.otherwise, scope_);
  run_loop(statement, std::move(items), 0);
  return Flow::kNext;
}

std::vector<Value> Interpreter::filtered(const Statement& statement, std::vector<Value> items) {
  const std::shared_ptr<Scope> outer = scope_;
  std::vector<Value> kept;
  for (Value& item : items) {
    scope_ = std::make_shared<Scope>();
    scope_->parent = outer;
    assign(*statement.target, item);
    if (truthy(eval(*statement.condition))) kept.push_back(std::move(item));
  }
  scope_ = outer;
  return kept;
}

void Interpreter::run_loop(const Statement& statement, std::vector<Value> items, int64_t depth0) {
  const std::shared_ptr<Scope> outer = scope_;
  const auto loop = std::make_shared<LoopContext>(*this);
  for (const Value& item : items) loop->data_depth = std::max(loop->data_depth, item.depth());
  loop->items = std::move(items);
  loop->depth0 = depth0;
  if (statement.recursive) {
    loop->statement = &statement;
    loop->outer = outer;
  }
  for (; loop->index0 < loop->items.size(); ++loop->index0) {
    runtime_.budget().step();
    scope_ = std::make_shared<Scope>();
    scope_->parent = outer;
    scope_->set(program_.loop_symbol, Value::object(loop));
    assign(*statement.target, loop->items[loop->index0]);
    if (run(statement.body) == Flow::kBreak) break;
  }
  loop->outer.reset();
  scope_ = outer;
}

Interpreter::Flow Interpreter::capture(const Body& body, std::string& text) {
  std::string* const outer = std::exchange(out_, &text);
  const Flow flow = run_scope(body, scope_);
  out_ = outer;
  return flow;
}

Interpreter::Flow Interpreter::run_set_block(const Statement& statement) {
  std::string text;
  if (const Flow flow = capture(statement.body, text); flow != Flow::kNext) return flow;
  Value value = runtime_.string(std::move(text));
  if (statement.value) value = eval_filter(*statement.value, &value);
  assign(*statement.target, value);
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_filter_block(const Statement& statement) {
  std::string text;
  if (const Flow flow = capture(statement.body, text); flow != Flow::kNext) return flow;
  const Value value = runtime_.string(std::move(text));
  write(eval_filter(*statement.value, &value));
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_with(const Statement& statement) {
  std::vector<Value> values;  // all in the outer scope, before any name is set
  for (const ExprPtr& expression : statement.expressions) values.push_back(eval(*expression));
  auto inner = std::make_shared<Scope>();
  inner->parent = scope_;
  const std::shared_ptr<Scope> outer = std::exchange(scope_, std::move(inner));
  for (size_t i = 0; i < values.size(); ++i) assign(*statement.targets[i], values[i]);
  const Flow flow = run(statement.body);
  scope_ = outer;
  return flow;
}

void Interpreter::run_call_block(const Statement& statement) {
  const Value caller = Value::object(make_macro(statement));
  write(eval_call(*statement.value, &caller));
}

void Interpreter::assign(const Expr& target, const Value& value) {
  if (target.kind == ExprKind::kName) return scope_->set(target.symbol, value);
  if (target.kind == ExprKind::kTuple) return assign_tuple(target, value);
  const Value holder = eval_name(target.symbol);
  auto* space = holder.is_object() ? dynamic_cast<Namespace*>(&holder.object_of()) : nullptr;
  if (!space) fail("cannot assign attribute on non-namespace object");
  runtime_.budget().items(1);
  space->attributes.set(target.text, value);
}

void Interpreter::assign_tuple(const Expr& target, const Value& value) {
  if (!value.is_sequence() && !value.is_string() && !value.is_dict())
    fail(format("cannot unpack non-iterable {} object", type_name(value)));
  const std::vector<Value> parts = runtime_.iterate(value);
  const size_t expected = target.items.size();
  if (parts.size() < expected)
    fail(format("not enough values to unpack (expected {}, got {})", expected, parts.size()));
  if (parts.size() > expected) fail(format("too many values to unpack (expected {})", expected));
  for (size_t i = 0; i < expected; ++i) assign(*target.items[i], parts[i]);
}

}  // namespace cheetah::jinja
