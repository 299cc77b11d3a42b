#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/template/parser.h"

namespace cheetah::jinja {
namespace {

constexpr int kMaxNesting = 400;  // statements weigh 4, expressions 2: 100 tags, 200 brackets

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::kEnd:
      return "end of template";
    case TokenKind::kVariableEnd:
      return "end of print statement";
    case TokenKind::kBlockEnd:
      return "end of statement block";
    case TokenKind::kData:
      return "template data";
    case TokenKind::kString:
      return format("string {}", printable(token.text));
    default:
      return printable(token.text);
  }
}

bool is_forbidden(std::string_view tag) {
  return tag == "import" || tag == "include" || tag == "extends" || tag == "from";
}

}  // namespace

Parser::Nesting::Nesting(Parser& parser, int weight) : parser_(parser), weight_(weight) {
  parser_.nesting_ += weight;
  if (parser_.nesting_ > kMaxNesting) parser_.bad("the template is nested too deeply");
}

const Token& Parser::next() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool Parser::skip_operator(std::string_view op) {
  if (!is_operator(op)) return false;
  next();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

const Token& Parser::expect(TokenKind kind) {
  if (!is(kind)) {
    const char* wanted = kind == TokenKind::kName          ? "a name"
                         : kind == TokenKind::kBlockEnd    ? "end of statement block"
                         : kind == TokenKind::kVariableEnd ? "end of print statement"
                                                           : "another token";
    bad(format("expected {}, got '{}'", wanted, describe(current())));
  }
  return next();
}

void Parser::expect_operator(std::string_view op) {
  if (!skip_operator(op)) bad(format("expected token '{}', got '{}'", op, describe(current())));
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) bad(format("expected token '{}', got '{}'", name, describe(current())));
}

void Parser::bad(const std::string& message, int line) const {
  throw SyntaxError(line == 0 ? current().line : line, message);
}

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
  statement->line = current().line;
  return statement;
}

bool Parser::at_end_tag(Names end_tags) const {
  return std::any_of(end_tags.begin(), end_tags.end(), [&](std::string_view tag) { return is_name(tag); });
}

Body Parser::parse_body(Names end_tags) {
  const Nesting nesting(*this, 4);
  Body body;
  while (!is(TokenKind::kEnd)) {
    if (is(TokenKind::kData)) {
      body.push_back(make(StatementKind::kText));
      body.back()->text = next().text;
    } else if (is(TokenKind::kVariableBegin)) {
      body.push_back(make(StatementKind::kOutput));
      next();
      body.back()->expressions.push_back(parse_tuple(true));
      expect(TokenKind::kVariableEnd);
    } else {
      next();  // {%
      if (at_end_tag(end_tags)) return body;
      body.push_back(parse_statement());
      expect(TokenKind::kBlockEnd);
    }
  }
  if (end_tags.size() != 0) {
    bad(format("Unexpected end of template: looking for '{}'; the innermost block to close is '{}'",
               *(end_tags.end() - 1), open_tags_.back()));
  }
  return body;
}

Body Parser::parse_block(Names end_tags) {
  skip_operator(":");
  expect(TokenKind::kBlockEnd);
  return parse_body(end_tags);
}

std::unique_ptr<Statement> Parser::parse_statement() {
  if (!is(TokenKind::kName)) bad("tag name expected");
  const std::string tag = current().text;
  if (is_forbidden(tag)) bad(format("{{% {} %}} is not allowed in a chat template", tag));
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
    bad(format("Encountered unknown tag '{}'", printable(tag)));
  open_tags_.pop_back();
  return statement;
}

std::unique_ptr<Statement> Parser::parse_if() {
  auto statement = make(StatementKind::kIf);
  ++soft_;
  bool more = true;
  next();
  while (more) {
    Branch& branch = statement->branches.emplace_back();
    branch.condition = parse_tuple(false);
    branch.body = parse_block({"elif", "else", "endif"});
    more = next().text == "elif";
  }
  if (tokens_[at_ - 1].text == "else") {
    statement->branches.emplace_back().body = parse_block({"endif"});
    next();
  }
  --soft_;
  return statement;
}

std::unique_ptr<Statement> Parser::parse_for() {
  auto statement = make(StatementKind::kFor);
  next();
  statement->target = parse_target(false, "in");
  expect_name("in");
  statement->value = parse_tuple(false, "recursive");
  if (skip_name("if")) statement->condition = parse_expression();
  statement->recursive = skip_name("recursive");
  ++loops_;
  statement->body = parse_block({"endfor", "else"});
  --loops_;
  if (next().text == "else") {
    statement->otherwise = parse_block({"endfor"});
    next();
  }
  return statement;
}

std::unique_ptr<Statement> Parser::parse_set() {
  auto statement = make(StatementKind::kSet);
  next();
  statement->target = parse_target(true);
  if (skip_operator("=")) {
    statement->value = parse_tuple(true);
    return statement;
  }
  statement->kind = StatementKind::kSetBlock;
  if (is_operator("|")) statement->value = parse_filter(nullptr);
  statement->body = parse_block({"endset"});
  next();
  return statement;
}

void Parser::parse_signature(Signature& signature) {
  expect_operator("(");
  while (!is_operator(")")) {
    if (!signature.names.empty()) expect_operator(",");
    const std::string name = expect(TokenKind::kName).text;
    if (skip_operator("="))
      signature.defaults.push_back(parse_expression());
    else if (!signature.defaults.empty())
      bad("non-default argument follows default argument");
    signature.names.push_back(name);
    signature.parameters.push_back(program_.symbols.intern(name));
  }
  expect_operator(")");
}

Body Parser::parse_function_body(Signature& signature, std::string_view end_tag) {
  const int loops = std::exchange(loops_, 0);
  functions_.push_back(&signature);
  Body body = parse_block({end_tag});
  functions_.pop_back();
  loops_ = loops;
  next();
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
  next();
  statement->signature.name = expect(TokenKind::kName).text;
  statement->symbol = program_.symbols.intern(statement->signature.name);
  parse_signature(statement->signature);
  statement->body = parse_function_body(statement->signature, "endmacro");
  return statement;
}

std::unique_ptr<Statement> Parser::parse_call_block() {
  auto statement = make(StatementKind::kCallBlock);
  next();
  if (is_operator("(")) parse_signature(statement->signature);
  statement->value = parse_expression();
  if (statement->value->kind != ExprKind::kCall) bad("expected call", statement->line);
  statement->body = parse_function_body(statement->signature, "endcall");
  return statement;
}

std::unique_ptr<Statement> Parser::parse_filter_block() {
  auto statement = make(StatementKind::kFilterBlock);
  next();
  statement->value = parse_filter(nullptr, true);
  statement->body = parse_block({"endfilter"});
  next();
  return statement;
}

std::unique_ptr<Statement> Parser::parse_with() {
  auto statement = make(StatementKind::kWith);
  next();
  while (!is(TokenKind::kBlockEnd)) {
    if (!statement->targets.empty()) expect_operator(",");
    statement->targets.push_back(parse_target(false));
    expect_operator("=");
    statement->expressions.push_back(parse_expression());
  }
  statement->body = parse_block({"endwith"});
  next();
  return statement;
}

// Tags that here only give their body its own names: {% generation %} marks the assistant's tokens,
// escaping is always off, and a block has no other template to be replaced by.
std::unique_ptr<Statement> Parser::parse_scope(std::string_view end_tag) {
  auto statement = make(StatementKind::kScope);
  next();
  if (end_tag == "endautoescape") statement->expressions.push_back(parse_expression());
  std::string name;
  if (end_tag == "endblock") {
    name = expect(TokenKind::kName).text;
    skip_name("scoped");
    skip_name("required");
  }
  const int loops = std::exchange(loops_, 0);
  statement->body = parse_block({end_tag});
  loops_ = loops;
  next();
  if (!name.empty()) skip_name(name);
  return statement;
}

std::unique_ptr<Statement> Parser::parse_print() {
  auto statement = make(StatementKind::kOutput);
  next();
  while (!is(TokenKind::kBlockEnd)) {
    if (!statement->expressions.empty()) expect_operator(",");
    statement->expressions.push_back(parse_expression());
  }
  return statement;
}

std::unique_ptr<Statement> Parser::parse_do() {
  auto statement = make(StatementKind::kDo);
  next();
  statement->value = parse_tuple(true);
  return statement;
}

std::unique_ptr<Statement> Parser::parse_loop_control(StatementKind kind) {
  auto statement = make(kind);
  if (loops_ == 0) bad(format("'{}' outside loop", current().text));
  next();
  return statement;
}

ExprPtr Parser::parse_target(bool with_namespace, std::string_view end_name) {
  const auto one = [&]() -> ExprPtr {
    if (with_namespace && is(TokenKind::kName) && look().kind == TokenKind::kOperator && look().text == ".") {
      ExprPtr target = make(ExprKind::kNamespaceRef, current().line);
      target->symbol = program_.symbols.intern(next().text);
      next();
      target->text = expect(TokenKind::kName).text;
      return target;
    }
    if (is_operator("(")) {  // a nested tuple
      next();
      const Nesting nesting(*this, 2);
      ExprPtr inner = parse_target(with_namespace);
      expect_operator(")");
      return inner;
    }
    ExprPtr target = make(ExprKind::kName, current().line);
    const std::string& name = expect(TokenKind::kName).text;
    for (const char* word : {"true", "false", "none", "True", "False", "None"})
      if (name == word) bad(format("can't assign to '{}'", name), target->line);
    target->symbol = program_.symbols.intern(name);
    return target;
  };
  ExprPtr first = one();
  if (!is_operator(",")) return first;
  ExprPtr tuple = make(ExprKind::kTuple, first->line);
  tuple->items.push_back(std::move(first));
  while (skip_operator(",")) {
    if (!is(TokenKind::kName) && !is_operator("(")) break;
    if (!end_name.empty() && is_name(end_name)) break;
    tuple->items.push_back(one());
  }
  return finish(std::move(tuple));
}

}  // namespace cheetah::jinja
