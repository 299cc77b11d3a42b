// SPDX-License-Identifier: MIT
#pragma once
// The names a statement sees, and the objects that a running template makes: namespaces, macros and loops.
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/template/ast.h"
#include "model/template/value.h"

namespace cheetah::jinja {

class Interpreter;

// The names of one block. Shared by the running statement, inner blocks and the macros defined in it.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<int, Value>> variables;
  bool kept = false;

  const Value* find(int symbol) const;
  void set(int symbol, Value value);
};

struct Namespace : Object {
  std::string type_name() const override { return "Namespace"; }
  std::optional<Value> attribute(std::string_view name) const override;
  void release() override { attributes = Dict(); }
  Dict attributes;
};

struct Macro : Object {
  explicit Macro(Interpreter& the_interpreter) : interpreter(the_interpreter) {}
  std::string type_name() const override { return "Macro"; }
  std::string repr() const override;
  std::optional<Value> attribute(std::string_view name) const override;
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Args& args) override;
  Interpreter& interpreter;
  const Signature* signature = nullptr;
  const Body* body = nullptr;
  std::shared_ptr<Scope> closure;
};

struct LoopContext : Object {
  explicit LoopContext(Interpreter& the_interpreter) : interpreter(the_interpreter) {}
  std::string type_name() const override { return "LoopContext"; }
  std::string repr() const override;
  std::optional<Value> attribute(std::string_view name) const override;
  bool callable() const override { return true; }
  Value call(Runtime& runtime, Args& args) override;
  int depth() const override { return data_depth + 1; }
  Interpreter& interpreter;
  std::vector<Value> items;
  int data_depth = 0;
  size_t index0 = 0;
  int64_t depth0 = 0;
  std::optional<std::vector<Value>> last_changed;
  const Statement* statement = nullptr;  // set when the loop is recursive
  std::shared_ptr<Scope> outer;
};

}  // namespace cheetah::jinja
