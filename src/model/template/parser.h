#pragma once
// Tokens → program. Depth-limited, so that no source can overflow the stack here or in the evaluator.
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "model/template/ast.h"
#include "model/template/lexer.h"

namespace cheetah::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, Program& program) : tokens_(std::move(tokens)), program_(program) {}
  void parse();

 private:
  using Names = std::initializer_list<std::string_view>;

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  const Token& next();
  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_operator(std::string_view op) const { return is(TokenKind::kOperator) && current().text == op; }
  bool is_name(std::string_view name) const { return is(TokenKind::kName) && current().text == name; }
  bool skip_operator(std::string_view op);
  bool skip_name(std::string_view name);
  const Token& expect(TokenKind kind);
  void expect_operator(std::string_view op);
  void expect_name(std::string_view name);
  [[noreturn]] void bad(const std::string& message, int line = 0) const;

  // Statements.
  Body parse_body(Names end_tags);
  Body parse_block(Names end_tags);  // the end of this tag, the body, then the end tag's name stays current
  bool at_end_tag(Names end_tags) const;
  std::unique_ptr<Statement> parse_statement();
  std::unique_ptr<Statement> parse_if();
  std::unique_ptr<Statement> parse_for();
  std::unique_ptr<Statement> parse_set();
  std::unique_ptr<Statement> parse_macro();
  std::unique_ptr<Statement> parse_call_block();
  std::unique_ptr<Statement> parse_filter_block();
  std::unique_ptr<Statement> parse_with();
  std::unique_ptr<Statement> parse_scope(std::string_view end_tag);
  std::unique_ptr<Statement> parse_print();
  std::unique_ptr<Statement> parse_do();
  std::unique_ptr<Statement> parse_loop_control(StatementKind kind);
  std::unique_ptr<Statement> make(StatementKind kind) const;
  void parse_signature(Signature& signature);
  Body parse_function_body(Signature& signature, std::string_view end_tag);
  ExprPtr parse_target(bool with_namespace, std::string_view end_name = {});
  void check_target(const Expr& target) const;

  // Expressions, loosest first.
  ExprPtr parse_expression(bool with_condition = true);
  ExprPtr parse_tuple(bool with_condition, std::string_view end_name = {}, bool in_parentheses = false);
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
  ExprPtr parse_filter(ExprPtr node, bool at_name = false);
  ExprPtr parse_test(ExprPtr node);
  void parse_arguments(Expr& call);
  void parse_argument(Expr& call, int line);
  std::string parse_dotted_name();

  ExprPtr make(ExprKind kind, int line) const;
  ExprPtr constant(Value value, int line) const;
  ExprPtr binary(char op, ExprPtr left, ExprPtr right, int line);
  ExprPtr finish(ExprPtr node);  // sets the depth from the children and checks it
  void note_special(const std::string& name);

  // Counts nesting while a recursive function runs.
  class Nesting {
   public:
    Nesting(Parser& parser, int weight);
    ~Nesting() { parser_.nesting_ -= weight_; }

   private:
    Parser& parser_;
    int weight_;
  };

  std::vector<Token> tokens_;
  Program& program_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;
  int soft_ = 0;  // inside an if: an unknown filter there is an error only when it is reached
  std::vector<std::string> open_tags_;
  std::vector<Signature*> functions_;
};

}  // namespace cheetah::jinja
