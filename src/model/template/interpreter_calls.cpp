// SPDX-License-Identifier: MIT
// Calls: macros with their callers, loops called again, filters and tests by name.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/template/interpreter.h"
#include "model/template/interpreter_guards.h"

namespace cheetah::jinja {
namespace {

// Moves the argument of that name into value; false when there is none.
bool take_named(Args& args, std::string_view wanted, Value& value) {
  const auto at =
      std::find_if(args.named.begin(), args.named.end(), [&](auto& pair) { return pair.first == wanted; });
  if (at == args.named.end()) return false;
  value = at->second;
  args.named.erase(at);
  return true;
}

}  // namespace

Value Interpreter::recurse_loop(const LoopContext& loop, Args& args) {
  if (!loop.statement) fail("The loop must have the 'recursive' marker to be called recursively.");
  if (!loop.outer) fail("a recursive loop cannot be called after it has ended");
  const Params params("loop", args, {"iterable"}, 1);
  const CallGuard guard(*this);
  const Statement& statement = *loop.statement;
  const int64_t depth0 = loop.depth0 + 1;
  const std::shared_ptr<Scope> here = std::exchange(scope_, loop.outer);
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  std::vector<Value> items = runtime_.iterate(params[0]);
  if (statement.condition) items = filtered(statement, std::move(items));
  if (items.empty())
    run_scope(statement.otherwise, scope_);
  else
    run_loop(statement, std::move(items), depth0);
  out_ = outer;
  scope_ = here;
  return runtime_.string(std::move(text));
}

std::shared_ptr<Macro> Interpreter::make_macro(const Statement& statement) {
  auto macro = std::make_shared<Macro>(*this);
  macro->signature = &statement.signature;
  macro->body = &statement.body;
  macro->closure = scope_;
  for (auto scope = scope_; scope && !scope->kept; scope = scope->parent) {
    scope->kept = true;
    kept_scopes_.push_back(scope);
  }
  return macro;
}

Value Interpreter::call_macro(const Macro& macro, Args& args) {
  const CallGuard guard(*this);
  auto inner = std::make_shared<Scope>();
  inner->parent = macro.closure;
  const std::shared_ptr<Scope> here = std::exchange(scope_, inner);
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  bind_parameters(macro, args, *inner);
  run(*macro.body);
  out_ = outer;
  scope_ = here;
  return runtime_.string(std::move(text));
}

void Interpreter::bind_parameters(const Macro& macro, Args& args, Scope& scope) {
  const Signature& signature = *macro.signature;
  const size_t count = signature.names.size();
  const size_t defaults_from = count - signature.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = signature.names[i];
    Value value;
    if (i < args.positional.size())
      value = args.positional[i];
    else if (take_named(args, name, value))
      runtime_.budget().step();
    else if (i >= defaults_from)
      value = eval(*signature.defaults[i - defaults_from]);
    else
      value = Value::undefined(format("parameter '{}' was not provided", name));
    scope.set(signature.parameters[i], std::move(value));
  }
  if (signature.uses_caller) {
    Value caller = Value::undefined("No caller defined");
    take_named(args, "caller", caller);
    scope.set(program_.caller_symbol, std::move(caller));
  }
  bind_rest(signature, args, scope);
}

// The arguments no parameter took: only a macro that speaks of varargs or kwargs may be given any.
void Interpreter::bind_rest(const Signature& signature, Args& args, Scope& scope) {
  const std::string name = signature.name.empty() ? "None" : string_repr(signature.name);
  if (signature.uses_kwargs) {
    Dict rest;
    for (const auto& [key, value] : args.named) rest.set(key, value);
    scope.set(program_.kwargs_symbol, Value::dict(std::move(rest)));
  } else if (!args.named.empty()) {
    fail(format("macro {} takes no keyword argument {}", name, string_repr(args.named[0].first)));
  }
  const size_t taken = std::min(signature.names.size(), args.positional.size());
  if (signature.uses_varargs) {
    const auto rest = args.positional.begin() + static_cast<ptrdiff_t>(taken);
    scope.set(program_.varargs_symbol, Value::tuple(std::vector<Value>(rest, args.positional.end())));
  } else if (args.positional.size() > taken) {
    fail(format("macro {} takes not more than {} argument(s)", name, signature.names.size()));
  }
}

}  // namespace cheetah::jinja
