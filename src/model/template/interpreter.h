// SPDX-License-Identifier: MIT
#pragma once
// Walks a program and writes the text. One interpreter renders once.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/template/ast.h"
#include "model/template/runtime.h"
#include "model/template/scope.h"
#include "model/template/value.h"

namespace cheetah::jinja {

class Interpreter {
 public:
  Interpreter(const Program& program, int64_t now);
  ~Interpreter();
  std::string render(const Dict& variables);
  int line() const { return line_; }

  Value call_macro(const Macro& macro, Args& args);
  Value recurse_loop(const LoopContext& loop, Args& args);

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
  Value eval_concat(const Expr& expr);
  Value eval_conditional(const Expr& expr);
  Value eval_sign(const Expr& expr);
  Args eval_arguments(const Expr& expr);

  const Program& program_;
  Runtime runtime_;
  int line_ = 1;
  int depth_ = 0;
  int calls_ = 0;
  std::string* out_ = nullptr;
  std::shared_ptr<Scope> scope_;
  std::vector<std::shared_ptr<Scope>> kept_scopes_;
};

}  // namespace cheetah::jinja
