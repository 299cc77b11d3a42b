// SPDX-License-Identifier: MIT
// Expressions.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/template/interpreter.h"
#include "model/template/interpreter_guards.h"

namespace cheetah::jinja {

Value Interpreter::eval(const Expr& expr) {
  const DepthGuard guard(*this);
  runtime_.budget().step();
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.constant;
    case ExprKind::kName:
    case ExprKind::kNamespaceRef:
      return eval_name(expr.symbol);
    case ExprKind::kList:
    case ExprKind::kTuple:
      return eval_container(expr);
    case ExprKind::kDict:
      return eval_dict(expr);
    case ExprKind::kAttribute: {
      const Value object = eval(*expr.items[0]);
      line_ = expr.line;
      return runtime_.attribute(object, expr.text);
    }
    case ExprKind::kItem: {
      const Value object = eval(*expr.items[0]);
      const Value key = eval(*expr.items[1]);
      line_ = expr.line;
      return runtime_.item(object, key);
    }
    case ExprKind::kSlice:
      return eval_slice(expr);
    case ExprKind::kCall:
      return eval_call(expr);
    case ExprKind::kFilter:
      return eval_filter(expr, nullptr);
    case ExprKind::kTest:
      return Value::boolean(eval_test(expr));
    case ExprKind::kNot:
      return Value::boolean(!truthy(eval(*expr.items[0])));
    case ExprKind::kNegative:
    case ExprKind::kPositive:
      return eval_sign(expr);
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      Value left = eval(*expr.items[0]);
      const bool done = truthy(left) == (expr.kind == ExprKind::kOr);
      return done ? left : eval(*expr.items[1]);
    }
    case ExprKind::kBinary: {
      const Value left = eval(*expr.items[0]);
      const Value right = eval(*expr.items[1]);
      line_ = expr.line;
      return runtime_.binary(expr.op, left, right);
    }
    case ExprKind::kConcat:
      return eval_concat(expr);
    case ExprKind::kCompare:
      return Value::boolean(eval_compare(expr));
    case ExprKind::kConditional:
      return eval_conditional(expr);
  }
  return Value();
}

Value Interpreter::eval_name(int symbol) const {
  if (const Value* value = scope_->find(symbol)) return *value;
  return Value::undefined(format("'{}' is undefined", program_.symbols.names[static_cast<size_t>(symbol)]));
}

Value Interpreter::eval_container(const Expr& expr) {
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item_expr : expr.items) items.push_back(eval(*item_expr));
  runtime_.budget().items(static_cast<int64_t>(items.size()));
  return expr.kind == ExprKind::kList ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

Value Interpreter::eval_dict(const Expr& expr) {
  Dict dict;
  for (size_t i = 0; i < expr.items.size(); i += 2) {
    const Value key = eval(*expr.items[i]);
    runtime_.budget().items(2);
    runtime_.budget().bytes(key.weight());
    dict.set(key, eval(*expr.items[i + 1]));
  }
  return Value::dict(std::move(dict));
}

Value Interpreter::eval_slice(const Expr& expr) {
  const Value object = eval(*expr.items[0]);
  Value parts[3];
  const Value* given[3] = {};
  for (size_t i = 0; i < 3; ++i) {
    if (!expr.items[i + 1]) continue;
    parts[i] = eval(*expr.items[i + 1]);
    given[i] = &parts[i];
  }
  line_ = expr.line;
  return runtime_.slice(object, given[0], given[1], given[2]);
}

Args Interpreter::eval_arguments(const Expr& expr) {
  Args args;
  args.positional.reserve(expr.arguments.size());
  for (const ExprPtr& argument : expr.arguments) args.positional.push_back(eval(*argument));
  for (const Keyword& keyword : expr.keywords) args.named.emplace_back(keyword.name, eval(*keyword.value));
  if (expr.star) {
    for (Value& value : runtime_.iterate(eval(*expr.star))) args.positional.push_back(std::move(value));
  }
  if (expr.star_star) {
    const Value spread = eval(*expr.star_star);
    if (!spread.is_dict()) fail(format("argument after ** must be a mapping, not {}", type_name(spread)));
    runtime_.budget().items(static_cast<int64_t>(spread.dict_of().size()));
    for (const auto& [key, value] : spread.dict_of().entries()) {
      if (!key.is_string()) fail("keywords must be strings");
      for (const auto& [name, old] : args.named)
        if (name == key.bytes())
          fail(format("got multiple values for keyword argument '{}'", printable(name)));
      args.named.emplace_back(key.bytes(), value);
    }
  }
  return args;
}

Value Interpreter::eval_call(const Expr& expr, const Value* caller) {
  const Value callee = eval(*expr.items[0]);
  Args args = eval_arguments(expr);
  if (caller) args.named.emplace_back("caller", *caller);
  line_ = expr.line;
  Value result = runtime_.call(callee, args);
  line_ = expr.line;
  return result;
}

Value Interpreter::eval_filter(const Expr& expr, const Value* input) {
  // The innermost filter of a filter block has no operand: it works on the block's text.
  Value subject;
  if (!expr.items[0])
    subject = *input;
  else if (expr.items[0]->kind == ExprKind::kFilter)
    subject = eval_filter(*expr.items[0], input);
  else
    subject = eval(*expr.items[0]);
  Args args = eval_arguments(expr);
  line_ = expr.line;
  return runtime_.call_filter(expr.text, subject, args);
}

bool Interpreter::eval_test(const Expr& expr) {
  const Value subject = eval(*expr.items[0]);
  Args args = eval_arguments(expr);
  line_ = expr.line;
  return runtime_.call_test(expr.text, subject, args);
}

bool Interpreter::eval_compare(const Expr& expr) {
  Value left = eval(*expr.items[0]);
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = eval(*expr.items[i + 1]);
    line_ = expr.line;
    if (!runtime_.compare(expr.operators[i], left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::eval_concat(const Expr& expr) {
  std::string text;
  for (const ExprPtr& part : expr.items) {
    const Value value = eval(*part);
    if (value.is_string())
      text += value.bytes();
    else
      text += runtime_.str(value);
    if (static_cast<int64_t>(text.size()) > runtime_.max_text_bytes()) break;  // refused below
  }
  return runtime_.string(std::move(text));
}

Value Interpreter::eval_conditional(const Expr& expr) {
  if (truthy(eval(*expr.items[0]))) return eval(*expr.items[1]);
  if (expr.items[2]) return eval(*expr.items[2]);
  return Value::undefined(format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.", expr.line));
}

Value Interpreter::eval_sign(const Expr& expr) {
  const Value value = eval(*expr.items[0]);
  line_ = expr.line;
  return runtime_.sign(expr.kind == ExprKind::kNegative, value);
}

}  // namespace cheetah::jinja
