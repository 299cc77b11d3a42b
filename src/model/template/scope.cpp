// SPDX-License-Identifier: MIT
#include "model/template/scope.h"

#include <algorithm>

#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/interpreter.h"

namespace cheetah::jinja {
namespace {

Value cycle(Runtime&, const Value& self, Args& args) {
  if (args.positional.empty()) fail("no items for cycling given");
  const auto& loop = dynamic_cast<LoopContext&>(self.object_of());
  return args.positional[loop.index0 % args.positional.size()];
}

Value changed(Runtime& runtime, const Value& self, Args& args) {
  auto& loop = dynamic_cast<LoopContext&>(self.object_of());
  if (loop.last_changed && runtime.equals(Value::tuple(*loop.last_changed), Value::tuple(args.positional)))
    return Value::boolean(false);
  for (const Value& value : args.positional) loop.data_depth = std::max(loop.data_depth, value.depth());
  loop.last_changed = args.positional;
  return Value::boolean(true);
}

Value method(const LoopContext& loop, NativeFunction function, std::string name) {
  auto self = std::const_pointer_cast<Object>(loop.shared_from_this());
  return Value::object(std::make_shared<Method>(Value::object(std::move(self)), function, std::move(name)));
}

}  // namespace

const Value* Scope::find(int symbol) const {
  for (const Scope* scope = this; scope; scope = scope->parent.get())
    for (const auto& [name, value] : scope->variables)
      if (name == symbol) return &value;
  return nullptr;
}

void Scope::set(int symbol, Value value) {
  for (auto& [name, old] : variables) {
    if (name != symbol) continue;
    old = std::move(value);
    return;
  }
  variables.emplace_back(symbol, std::move(value));
}

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

Value Macro::call(Runtime&, Args& args) { return interpreter.call_macro(*this, args); }

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

Value LoopContext::call(Runtime&, Args& args) { return interpreter.recurse_loop(*this, args); }

}  // namespace cheetah::jinja
