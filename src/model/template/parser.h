// SPDX-License-Identifier: MIT
#pragma once
// Tokens → program: the statements of a template.
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "model/template/ast.h"
#include "model/template/expression_parser.h"
#include "model/template/lexer.h"
#include "model/template/token_reader.h"

namespace cheetah::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, Program& program)
      : in_(std::move(tokens)), program_(program), expressions_(in_, program) {}
  void parse();

 private:
  using Names = std::initializer_list<std::string_view>;

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

  TokenReader in_;
  Program& program_;
  ExpressionParser expressions_;
  int loops_ = 0;
  std::vector<std::string> open_tags_;
};

}  // namespace cheetah::jinja
