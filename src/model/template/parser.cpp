// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/template/parser.h"

namespace cheetah::jinja {
namespace {

bool is_forbidden(std::string_view tag) {
  return tag == "import" || tag == "include" || tag == "extends" || tag == "from";
}

}  // namespace

void Parser::parse() {
  program_.loop_symbol = program_.symbols.intern("loop");
  program_.caller_symbol = program_.symbols.intern("caller");
  program_.varargs_symbol = program_.symbols.intern("varargs");
  program_.kwargs_symbol = program_.symbols.intern("kwargs");
  program_.body = parse_body({});
}

std::unique_ptr<Statement> Parser::make(StatementKind kind) const {
  auto statement = std::make_unique<Statement>();
  statement->kind = kind;
  statement->line = in_.current().line;
  return statement;
}

bool Parser::at_end_tag(Names end_tags) const {
  return std::any_of(
      end_tags.begin(), end_tags.end(), [&](std::string_view tag) { return in_.is_name(tag); });
}

Body Parser::parse_body(Names end_tags) {
  const TokenReader::Nesting nesting(in_, 4);
  Body body;
  while (!in_.is(TokenKind::kEnd)) {
    if (in_.is(TokenKind::kData)) {
      body.push_back(make(StatementKind::kText));
      body.back()->text = in_.next().text;
    } else if (in_.is(TokenKind::kVariableBegin)) {
      body.push_back(make(StatementKind::kOutput));
      in_.next();
      body.back()->expressions.push_back(expressions_.parse_tuple(true));
      in_.expect(TokenKind::kVariableEnd);
    } else {
      in_.next();  // {%
      if (at_end_tag(end_tags)) return body;
      body.push_back(parse_statement());
      in_.expect(TokenKind::kBlockEnd);
    }
  }
  if (end_tags.size() != 0) {
    in_.bad(format("Unexpected end of template: looking for '{}'; the innermost block to close is '{}'",
        *(end_tags.end() - 1), open_tags_.back()));
  }
  return body;
}

Body Parser::parse_block(Names end_tags) {
  in_.skip_operator(":");
  in_.expect(TokenKind::kBlockEnd);
  return parse_body(end_tags);
}

std::unique_ptr<Statement> Parser::parse_statement() {
  if (!in_.is(TokenKind::kName)) in_.bad("tag name expected");
  const std::string tag = in_.current().text;
  if (is_forbidden(tag)) in_.bad(format("{{% {} %}} is not allowed in a chat template", tag));
  open_tags_.push_back(tag);
  std::unique_ptr<Statement> statement;
  if (tag == "if")
    statement = parse_if();
  else if (tag == "for")
    statement = parse_for();
  else if (tag == "set")
    statement = parse_set();
  else if (tag == "macro")
    statement = parse_macro();
  else if (tag == "call")
    statement = parse_call_block();
  else if (tag == "filter")
    statement = parse_filter_block();
  else if (tag == "with")
    statement = parse_with();
  else if (tag == "generation")
    statement = parse_scope("endgeneration");
  else if (tag == "autoescape")
    statement = parse_scope("endautoescape");
  else if (tag == "block")
    statement = parse_scope("endblock");
  else if (tag == "print")
    statement = parse_print();
  else if (tag == "do")
    statement = parse_do();
  else if (tag == "break")
    statement = parse_loop_control(StatementKind::kBreak);
  else if (tag == "continue")
    statement = parse_loop_control(StatementKind::kContinue);
  else
    in_.bad(format("Encountered unknown tag '{}'", printable(tag)));
  open_tags_.pop_back();
  return statement;
}

std::unique_ptr<Statement> Parser::parse_if() {
  auto statement = make(StatementKind::kIf);
  const ExpressionParser::Conditional conditional(expressions_);
  bool more = true;
  in_.next();
  while (more) {
    Branch& branch = statement->branches.emplace_back();
    branch.condition = expressions_.parse_tuple(false);
    branch.body = parse_block({"elif", "else", "endif"});
    more = in_.next().text == "elif";
  }
  if (in_.previous().text == "else") {
    statement->branches.emplace_back().body = parse_block({"endif"});
    in_.next();
  }
  return statement;
}

std::unique_ptr<Statement> Parser::parse_for() {
  auto statement = make(StatementKind::kFor);
  in_.next();
  statement->target = expressions_.parse_target(false, "in");
  in_.expect_name("in");
  statement->value = expressions_.parse_tuple(false, "recursive");
  if (in_.skip_name("if")) statement->condition = expressions_.parse_expression();
  statement->recursive = in_.skip_name("recursive");
  ++loops_;
  statement->body = parse_block({"endfor", "else"});
  --loops_;
  if (in_.next().text == "else") {
    statement->otherwise = parse_block({"endfor"});
    in_.next();
  }
  return statement;
}

std::unique_ptr<Statement> Parser::parse_set() {
  auto statement = make(StatementKind::kSet);
  in_.next();
  statement->target = expressions_.parse_target(true);
  if (in_.skip_operator("=")) {
    statement->value = expressions_.parse_tuple(true);
    return statement;
  }
  statement->kind = StatementKind::kSetBlock;
  if (in_.is_operator("|")) statement->value = expressions_.parse_filter(nullptr);
  statement->body = parse_block({"endset"});
  in_.next();
  return statement;
}

void Parser::parse_signature(Signature& signature) {
  in_.expect_operator("(");
  while (!in_.is_operator(")")) {
    if (!signature.names.empty()) in_.expect_operator(",");
    const std::string name = in_.expect(TokenKind::kName).text;
    if (in_.skip_operator("="))
      signature.defaults.push_back(expressions_.parse_expression());
    else if (!signature.defaults.empty())
      in_.bad("non-default argument follows default argument");
    signature.names.push_back(name);
    signature.parameters.push_back(program_.symbols.intern(name));
  }
  in_.expect_operator(")");
}

Body Parser::parse_function_body(Signature& signature, std::string_view end_tag) {
  const int loops = std::exchange(loops_, 0);
  expressions_.begin_function(signature);
  Body body = parse_block({end_tag});
  expressions_.end_function();
  loops_ = loops;
  in_.next();
  const auto declared = [&](std::string_view name) {
    return std::find(signature.names.begin(), signature.names.end(), name) != signature.names.end();
  };
  signature.uses_caller = signature.uses_caller && !declared("caller");
  signature.uses_kwargs = signature.uses_kwargs && !declared("kwargs");
  signature.uses_varargs = signature.uses_varargs && !declared("varargs");
  return body;
}

std::unique_ptr<Statement> Parser::parse_macro() {
  auto statement = make(StatementKind::kMacro);
  in_.next();
  statement->signature.name = in_.expect(TokenKind::kName).text;
  statement->symbol = program_.symbols.intern(statement->signature.name);
  parse_signature(statement->signature);
  statement->body = parse_function_body(statement->signature, "endmacro");
  return statement;
}

std::unique_ptr<Statement> Parser::parse_call_block() {
  auto statement = make(StatementKind::kCallBlock);
  in_.next();
  if (in_.is_operator("(")) parse_signature(statement->signature);
  statement->value = expressions_.parse_expression();
  if (statement->value->kind != ExprKind::kCall) in_.bad("expected call", statement->line);
  statement->body = parse_function_body(statement->signature, "endcall");
  return statement;
}

std::unique_ptr<Statement> Parser::parse_filter_block() {
  auto statement = make(StatementKind::kFilterBlock);
  in_.next();
  statement->value = expressions_.parse_filter(nullptr, true);
  statement->body = parse_block({"endfilter"});
  in_.next();
  return statement;
}

std::unique_ptr<Statement> Parser::parse_with() {
  auto statement = make(StatementKind::kWith);
  in_.next();
  while (!in_.is(TokenKind::kBlockEnd)) {
    if (!statement->targets.empty()) in_.expect_operator(",");
    statement->targets.push_back(expressions_.parse_target(false));
    in_.expect_operator("=");
    statement->expressions.push_back(expressions_.parse_expression());
  }
  statement->body = parse_block({"endwith"});
  in_.next();
  return statement;
}

// Tags that here only give their body its own names: {% generation %} marks the assistant's tokens,
// escaping is always off, and a block has no other template to be replaced by.
std::unique_ptr<Statement> Parser::parse_scope(std::string_view end_tag) {
  auto statement = make(StatementKind::kScope);
  in_.next();
  if (end_tag == "endautoescape") statement->expressions.push_back(expressions_.parse_expression());
  std::string name;
  if (end_tag == "endblock") {
    name = in_.expect(TokenKind::kName).text;
    in_.skip_name("scoped");
    in_.skip_name("required");
  }
  const int loops = std::exchange(loops_, 0);
  statement->body = parse_block({end_tag});
  loops_ = loops;
  in_.next();
  if (!name.empty()) in_.skip_name(name);
  return statement;
}

std::unique_ptr<Statement> Parser::parse_print() {
  auto statement = make(StatementKind::kOutput);
  in_.next();
  while (!in_.is(TokenKind::kBlockEnd)) {
    if (!statement->expressions.empty()) in_.expect_operator(",");
    statement->expressions.push_back(expressions_.parse_expression());
  }
  return statement;
}

std::unique_ptr<Statement> Parser::parse_do() {
  auto statement = make(StatementKind::kDo);
  in_.next();
  statement->value = expressions_.parse_tuple(true);
  return statement;
}

std::unique_ptr<Statement> Parser::parse_loop_control(StatementKind kind) {
  auto statement = make(kind);
  if (loops_ == 0) in_.bad(format("'{}' outside loop", in_.current().text));
  in_.next();
  return statement;
}

}  // namespace cheetah::jinja
