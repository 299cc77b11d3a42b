#pragma once
// Walks a program and writes the text. One interpreter renders once.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/template/ast.h"
#include "model/template/builtins.h"
#include "model/template/value.h"

namespace cheetah::jinja {

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
  std::string type_name() const override { return "Macro"; }
  std::string repr() const override;
  std::optional<Value> attribute(std::string_view name) const override;
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Args& args) override;
  const Signature* signature = nullptr;
  const Body* body = nullptr;
  std::shared_ptr<Scope> closure;
};

struct LoopContext : Object {
  std::string type_name() const override { return "LoopContext"; }
  std::string repr() const override;
  std::optional<Value> attribute(std::string_view name) const override;
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Args& args) override;
  int depth() const override { return data_depth + 1; }
  std::vector<Value> items;
  int data_depth = 0;
  size_t index0 = 0;
  int64_t depth0 = 0;
  std::optional<std::vector<Value>> last_changed;
  const Statement* statement = nullptr;  // set when the loop is recursive
  std::shared_ptr<Scope> outer;
};

class Interpreter {
 public:
  Interpreter(const Program& program, int64_t now);
  ~Interpreter();
  std::string render(const Dict& variables);
  int line() const { return line_; }

  // What builtins use.
  Budget& budget() { return budget_; }
  int64_t now() const { return now_; }
  Value call(const Value& callee, Args& args);
  Value call_filter(const std::string& name, const Value& value, Args& args);
  bool call_test(const std::string& name, const Value& value, Args& args);
  Value attribute(const Value& object, const std::string& name);
  Value item(const Value& object, const Value& key);
  Value slice(const Value& object, const Value* start, const Value* stop, const Value* step);
  std::vector<Value> iterate(const Value& value);  // fails on what has no items; empties a generator
  bool equals(const Value& a, const Value& b);
  bool is_less(const Value& a, const Value& b, const char* op = "<");
  bool contains(const Value& container, const Value& item);
  Value binary(char op, const Value& a, const Value& b);
  std::string str(const Value& value);
  Value string(std::string bytes, bool safe = false);
  Value list(std::vector<Value> items);
  void keep(std::shared_ptr<Object> object) { kept_objects_.push_back(std::move(object)); }
  Value call_macro(const Macro& macro, Args& args);
  Value recurse_loop(const LoopContext& loop, Args& args);
  int64_t max_text_bytes() const { return program_.limits.max_output_bytes; }

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class DepthGuard;
  class CallGuard;

  Flow run(const Body& body);
  Flow run(const Statement& statement);
  Flow run_if(const Statement& statement);
  Flow run_for(const Statement& statement);
  void run_loop(const Statement& statement, std::vector<Value> items, int64_t depth0);
  std::vector<Value> filtered(const Statement& statement, std::vector<Value> items);
  Flow run_set_block(const Statement& statement);
  Flow run_filter_block(const Statement& statement);
  Flow run_with(const Statement& statement);
  Flow run_scope(const Body& body, std::shared_ptr<Scope> parent);
  void run_call_block(const Statement& statement);
  Flow capture(const Body& body, std::string& text);
  void assign(const Expr& target, const Value& value);
  void assign_tuple(const Expr& target, const Value& value);
  std::shared_ptr<Macro> make_macro(const Statement& statement);
  void bind_parameters(const Macro& macro, Args& args, Scope& scope);
  void bind_rest(const Signature& signature, Args& args, Scope& scope);
  void write(std::string_view text);
  void write(const Value& value);

  Value eval(const Expr& expr);
  Value eval_name(int symbol) const;
  Value eval_container(const Expr& expr);
  Value eval_dict(const Expr& expr);
  Value eval_slice(const Expr& expr);
  Value eval_call(const Expr& expr, const Value* caller = nullptr);
  Value eval_filter(const Expr& expr, const Value* input);
  bool eval_test(const Expr& expr);
  bool eval_compare(const Expr& expr);
  bool compare(const std::string& op, const Value& a, const Value& b);
  Value eval_concat(const Expr& expr);
  Value eval_conditional(const Expr& expr);
  Value eval_sign(const Expr& expr);
  Args eval_arguments(const Expr& expr);
  Value add(const Value& a, const Value& b);
  Value multiply(const Value& a, const Value& b);
  Value repeat(const Value& sequence, int64_t count);
  std::optional<Value> known_attribute(const Value& object, const std::string& name);

  const Program& program_;
  Budget budget_;
  int64_t now_;
  int line_ = 1;
  int depth_ = 0;
  int calls_ = 0;
  std::string* out_ = nullptr;
  std::shared_ptr<Scope> scope_;
  std::vector<std::shared_ptr<Scope>> kept_scopes_;
  std::vector<std::shared_ptr<Object>> kept_objects_;
};

// What an undefined attribute or element says when it is used.
std::string missing_attribute(const Value& object, const Value& name);

}  // namespace cheetah::jinja
