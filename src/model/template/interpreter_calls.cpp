// Calls: macros with their callers, loops called again, filters and tests by name.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/template/interpreter.h"
#include "model/template/interpreter_guards.h"

namespace cheetah::jinja {
namespace {

Value cycle(Interpreter&, const Value& self, Args& args) {
  if (args.positional.empty()) fail("no items for cycling given");
  const auto& loop = dynamic_cast<LoopContext&>(self.object_of());
  return args.positional[loop.index0 % args.positional.size()];
}

Value changed(Interpreter& interpreter, const Value& self, Args& args) {
  auto& loop = dynamic_cast<LoopContext&>(self.object_of());
  if (loop.last_changed &&
      interpreter.equals(Value::tuple(*loop.last_changed), Value::tuple(args.positional)))
    return Value::boolean(false);
  for (const Value& value : args.positional) loop.data_depth = std::max(loop.data_depth, value.depth());
  loop.last_changed = args.positional;
  return Value::boolean(true);
}

Value method(const LoopContext& loop, NativeFunction function, std::string name) {
  auto self = std::const_pointer_cast<Object>(loop.shared_from_this());
  return Value::object(std::make_shared<Method>(Value::object(std::move(self)), function, std::move(name)));
}

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

std::optional<Value> Namespace::attribute(std::string_view name) const {
  const Value* value = attributes.find(name);
  return value ? std::optional<Value>(*value) : std::nullopt;
}

std::string Macro::repr() const {
  return signature->name.empty() ? "<Macro anonymous>" : format("<Macro {}>", string_repr(signature->name));
}

std::optional<Value> Macro::attribute(std::string_view name) const {
  if (name == "name") return signature->name.empty() ? Value() : Value::string(signature->name);
  if (name == "catch_kwargs") return Value::boolean(signature->uses_kwargs);
  if (name == "catch_varargs") return Value::boolean(signature->uses_varargs);
  if (name == "caller") return Value::boolean(signature->uses_caller);
  if (name != "arguments") return std::nullopt;
  std::vector<Value> names;
  for (const std::string& parameter : signature->names) names.push_back(Value::string(parameter));
  return Value::tuple(std::move(names));
}

Value Macro::call(Interpreter& interpreter, Args& args) { return interpreter.call_macro(*this, args); }

std::string LoopContext::repr() const { return format("<LoopContext {}/{}>", index0 + 1, items.size()); }

std::optional<Value> LoopContext::attribute(std::string_view name) const {
  const auto index = static_cast<int64_t>(index0);
  const auto length = static_cast<int64_t>(items.size());
  if (name == "index") return Value::integer(index + 1);
  if (name == "index0") return Value::integer(index);
  if (name == "revindex") return Value::integer(length - index);
  if (name == "revindex0") return Value::integer(length - index - 1);
  if (name == "first") return Value::boolean(index == 0);
  if (name == "last") return Value::boolean(index + 1 >= length);
  if (name == "length") return Value::integer(length);
  if (name == "depth") return Value::integer(depth0 + 1);
  if (name == "depth0") return Value::integer(depth0);
  if (name == "cycle") return method(*this, cycle, "cycle");
  if (name == "changed") return method(*this, changed, "changed");
  if (name == "previtem")
    return index0 == 0 ? Value::undefined("there is no previous item") : items[index0 - 1];
  if (name == "nextitem")
    return index0 + 1 >= items.size() ? Value::undefined("there is no next item") : items[index0 + 1];
  return std::nullopt;
}

Value LoopContext::call(Interpreter& interpreter, Args& args) {
  return interpreter.recurse_loop(*this, args);
}

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
  std::vector<Value> items = iterate(params[0]);
  if (statement.condition) items = filtered(statement, std::move(items));
  if (items.empty())
    run_scope(statement.otherwise, scope_);
  else
    run_loop(statement, std::move(items), depth0);
  out_ = outer;
  scope_ = here;
  return string(std::move(text));
}

std::shared_ptr<Macro> Interpreter::make_macro(const Statement& statement) {
  auto macro = std::make_shared<Macro>();
  macro->signature = &statement.signature;
  macro->body = &statement.body;
  macro->closure = scope_;
  for (auto scope = scope_; scope && !scope->kept; scope = scope->parent) {
    scope->kept = true;
    kept_scopes_.push_back(scope);
  }
  return macro;
}

Value Interpreter::call(const Value& callee, Args& args) {
  if (callee.is_undefined()) fail(callee.undefined_message());
  if (!callee.is_object() || !callee.object_of().callable())
    fail(format("'{}' object is not callable", type_name(callee)));
  const std::shared_ptr<Object> alive = callee.object_ptr();
  return alive->call(*this, args);
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
  return string(std::move(text));
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
      budget_.step();
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

Value Interpreter::call_filter(const std::string& name, const Value& value, Args& args) {
  const NativeFunction filter = find_filter(name);
  if (!filter) fail(format("unknown filter: No filter named '{}' found.", printable(name)));
  budget_.step();
  return filter(*this, value, args);
}

bool Interpreter::call_test(const std::string& name, const Value& value, Args& args) {
  const TestFunction test = find_test(name);
  if (!test) fail(format("unknown test: No test named '{}' found.", printable(name)));
  budget_.step();
  return test(*this, value, args);
}

}  // namespace cheetah::jinja
