// SPDX-License-Identifier: MIT
#pragma once
// Tokens → expressions. Their depth is limited, so that no source overflows the stack here or in the interpreter.
#include <string>
#include <string_view>
#include <vector>

#include "model/template/ast.h"
#include "model/template/token_reader.h"

namespace cheetah::jinja {

class ExpressionParser {
 public:
  ExpressionParser(TokenReader& in, Program& program) : in_(in), program_(program) {}

  ExprPtr parse_expression(bool with_condition = true);
  ExprPtr parse_tuple(bool with_condition, std::string_view end_name = {}, bool in_parentheses = false);
  // What a statement assigns to: a name, a tuple of names, or an attribute of a namespace.
  ExprPtr parse_target(bool with_namespace, std::string_view end_name = {});
  // The filters after `node`, which is null for those of a block; `at_name`: the first one has no '|'.
  ExprPtr parse_filter(ExprPtr node, bool at_name = false);

  // The body of a macro or call block: it takes a caller or spare arguments only when it speaks of them.
  void begin_function(Signature& signature) { functions_.push_back(&signature); }
  void end_function() { functions_.pop_back(); }

  // While one exists, what is parsed may never be reached: an unknown filter or test is an error only when it is.
  class Conditional {
   public:
    explicit Conditional(ExpressionParser& parser) : parser_(parser) { ++parser_.conditionals_; }
    ~Conditional() { --parser_.conditionals_; }
    Conditional(const Conditional&) = delete;
    Conditional& operator=(const Conditional&) = delete;

   private:
    ExpressionParser& parser_;
  };

 private:
  // Loosest first.
  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter = true);
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_string();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr node);
  ExprPtr parse_filters_and_tests(ExprPtr node);
  ExprPtr parse_subscript(ExprPtr node);
  ExprPtr parse_index();
  ExprPtr parse_call(ExprPtr node);
  ExprPtr parse_test(ExprPtr node);
  void parse_arguments(Expr& call);
  void parse_argument(Expr& call, int line);
  std::string parse_dotted_name();

  ExprPtr parse_one_target(bool with_namespace);
  ExprPtr make(ExprKind kind, int line) const;
  ExprPtr constant(Value value, int line) const;
  ExprPtr binary(char op, ExprPtr left, ExprPtr right, int line);
  ExprPtr finish(ExprPtr node);  // sets the depth from the children and checks it
  void note_special(const std::string& name);

  TokenReader& in_;
  Program& program_;
  int conditionals_ = 0;
  std::vector<Signature*> functions_;
};

}  // namespace cheetah::jinja
