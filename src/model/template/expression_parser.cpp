// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/template/expression_parser.h"

namespace cheetah::jinja {
namespace {

constexpr int kMaxExpressionDepth = 200;

bool is_comparison(const Token& token) {
  static constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
  return token.kind == TokenKind::kOperator &&
         std::find(std::begin(kOperators), std::end(kOperators), token.text) != std::end(kOperators);
}

}  // namespace

ExprPtr ExpressionParser::make(ExprKind kind, int line) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

ExprPtr ExpressionParser::constant(Value value, int line) const {
  ExprPtr node = make(ExprKind::kConstant, line);
  node->constant = std::move(value);
  return node;
}

ExprPtr ExpressionParser::finish(ExprPtr node) {
  const auto include = [&](const ExprPtr& child) {
    if (child) node->depth = std::max(node->depth, child->depth + 1);
  };
  for (const ExprPtr& item : node->items) include(item);
  for (const ExprPtr& argument : node->arguments) include(argument);
  for (const Keyword& keyword : node->keywords) include(keyword.value);
  include(node->star);
  include(node->star_star);
  if (node->depth > kMaxExpressionDepth) in_.bad("the expression is nested too deeply", node->line);
  return node;
}

ExprPtr ExpressionParser::binary(char op, ExprPtr left, ExprPtr right, int line) {
  ExprPtr node = make(ExprKind::kBinary, line);
  node->op = op;
  node->items.push_back(std::move(left));
  node->items.push_back(std::move(right));
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_expression(bool with_condition) {
  const TokenReader::Nesting nesting(in_, 2);
  return with_condition ? parse_conditional() : parse_or();
}

ExprPtr ExpressionParser::parse_tuple(bool with_condition, std::string_view end_name, bool in_parentheses) {
  const int line = in_.current().line;
  const auto at_end = [&] {
    return in_.is(TokenKind::kVariableEnd) || in_.is(TokenKind::kBlockEnd) || in_.is_operator(")") ||
           (!end_name.empty() && in_.is_name(end_name));
  };
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (!at_end()) {
    items.push_back(parse_expression(with_condition));
    if (!in_.skip_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !in_parentheses) in_.bad("Expected an expression");
  ExprPtr tuple = make(ExprKind::kTuple, line);
  tuple->items = std::move(items);
  return finish(std::move(tuple));
}

ExprPtr ExpressionParser::parse_conditional() {
  const int line = in_.current().line;
  ExprPtr value = parse_or();
  while (in_.skip_name("if")) {
    const Conditional conditional(*this);
    ExprPtr node = make(ExprKind::kConditional, line);
    node->items.push_back(parse_or());
    node->items.push_back(std::move(value));
    node->items.push_back(in_.skip_name("else") ? parse_expression() : nullptr);
    value = finish(std::move(node));
  }
  return value;
}

ExprPtr ExpressionParser::parse_or() {
  ExprPtr left = parse_and();
  while (in_.is_name("or")) {
    ExprPtr node = make(ExprKind::kOr, in_.next().line);
    node->items.push_back(std::move(left));
    node->items.push_back(parse_and());
    left = finish(std::move(node));
  }
  return left;
}

ExprPtr ExpressionParser::parse_and() {
  ExprPtr left = parse_not();
  while (in_.is_name("and")) {
    ExprPtr node = make(ExprKind::kAnd, in_.next().line);
    node->items.push_back(std::move(left));
    node->items.push_back(parse_not());
    left = finish(std::move(node));
  }
  return left;
}

ExprPtr ExpressionParser::parse_not() {
  if (!in_.is_name("not")) return parse_compare();
  const TokenReader::Nesting nesting(in_, 1);
  ExprPtr node = make(ExprKind::kNot, in_.next().line);
  node->items.push_back(parse_not());
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_compare() {
  ExprPtr first = parse_sum();
  ExprPtr node;
  while (true) {
    std::string op;
    if (is_comparison(in_.current()))
      op = in_.next().text;
    else if (in_.skip_name("in"))
      op = "in";
    else if (in_.is_name("not") && in_.look().kind == TokenKind::kName && in_.look().text == "in") {
      in_.next();
      in_.next();
      op = "not in";
    } else {
      break;
    }
    if (!node) {
      node = make(ExprKind::kCompare, in_.current().line);
      node->items.push_back(std::move(first));
    }
    node->operators.push_back(op);
    node->items.push_back(parse_sum());
  }
  return node ? finish(std::move(node)) : std::move(first);
}

ExprPtr ExpressionParser::parse_sum() {
  ExprPtr left = parse_concat();
  while (in_.is_operator("+") || in_.is_operator("-")) {
    const Token& token = in_.next();
    left = binary(token.text[0], std::move(left), parse_concat(), token.line);
  }
  return left;
}

ExprPtr ExpressionParser::parse_concat() {
  ExprPtr first = parse_product();
  if (!in_.is_operator("~")) return first;
  ExprPtr node = make(ExprKind::kConcat, in_.current().line);
  node->items.push_back(std::move(first));
  while (in_.skip_operator("~")) node->items.push_back(parse_product());
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_product() {
  ExprPtr left = parse_power();
  while (in_.is_operator("*") || in_.is_operator("/") || in_.is_operator("//") || in_.is_operator("%")) {
    const Token& token = in_.next();
    left = binary(token.text == "//" ? 'f' : token.text[0], std::move(left), parse_power(), token.line);
  }
  return left;
}

ExprPtr ExpressionParser::parse_power() {
  ExprPtr left = parse_unary();
  while (in_.is_operator("**")) {
    const int line = in_.next().line;
    left = binary('p', std::move(left), parse_unary(), line);
  }
  return left;
}

ExprPtr ExpressionParser::parse_unary(bool with_filter) {
  ExprPtr node;
  if (in_.is_operator("-") || in_.is_operator("+")) {
    const TokenReader::Nesting nesting(in_, 1);
    const Token& sign = in_.next();
    node = make(sign.text == "-" ? ExprKind::kNegative : ExprKind::kPositive, sign.line);
    node->items.push_back(parse_unary(false));
    node = finish(std::move(node));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::parse_primary() {
  const Token& token = in_.current();
  switch (token.kind) {
    case TokenKind::kName:
      return parse_name();
    case TokenKind::kString:
      return parse_string();
    case TokenKind::kInteger:
      in_.next();
      return constant(Value::integer(token.integer), token.line);
    case TokenKind::kFloat:
      in_.next();
      return constant(Value::number(token.number), token.line);
    default:
      break;
  }
  if (in_.is_operator("[")) return parse_list();
  if (in_.is_operator("{")) return parse_dict();
  if (in_.is_operator("(")) {
    in_.next();
    ExprPtr node = parse_tuple(true, {}, true);
    in_.expect_operator(")");
    return node;
  }
  in_.bad(
      format("unexpected '{}'", token.kind == TokenKind::kEnd ? "end of template" : printable(token.text)));
}

ExprPtr ExpressionParser::parse_name() {
  const Token& token = in_.next();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return constant(Value::boolean(true), token.line);
  if (name == "false" || name == "False") return constant(Value::boolean(false), token.line);
  if (name == "none" || name == "None") return constant(Value(), token.line);
  note_special(name);
  ExprPtr node = make(ExprKind::kName, token.line);
  node->symbol = program_.symbols.intern(name);
  return node;
}

// A macro takes a caller or spare arguments only when its body speaks of them.
void ExpressionParser::note_special(const std::string& name) {
  for (Signature* function : functions_) {
    if (name == "caller") function->uses_caller = true;
    if (name == "varargs") function->uses_varargs = true;
    if (name == "kwargs") function->uses_kwargs = true;
  }
}

ExprPtr ExpressionParser::parse_string() {
  const int line = in_.current().line;
  std::string text;
  while (in_.is(TokenKind::kString)) text += in_.next().text;
  return constant(Value::string(std::move(text)), line);
}

ExprPtr ExpressionParser::parse_list() {
  ExprPtr node = make(ExprKind::kList, in_.next().line);
  while (!in_.is_operator("]")) {
    if (!node->items.empty()) in_.expect_operator(",");
    if (in_.is_operator("]")) break;
    node->items.push_back(parse_expression());
  }
  in_.expect_operator("]");
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_dict() {
  ExprPtr node = make(ExprKind::kDict, in_.next().line);
  while (!in_.is_operator("}")) {
    if (!node->items.empty()) in_.expect_operator(",");
    if (in_.is_operator("}")) break;
    node->items.push_back(parse_expression());
    in_.expect_operator(":");
    node->items.push_back(parse_expression());
  }
  in_.expect_operator("}");
  return finish(std::move(node));
}

ExprPtr ExpressionParser::parse_one_target(bool with_namespace) {
  if (with_namespace && in_.is(TokenKind::kName) && in_.look().kind == TokenKind::kOperator &&
      in_.look().text == ".") {
    ExprPtr target = make(ExprKind::kNamespaceRef, in_.current().line);
    target->symbol = program_.symbols.intern(in_.next().text);
    in_.next();
    target->text = in_.expect(TokenKind::kName).text;
    return target;
  }
  if (in_.is_operator("(")) {  // a nested tuple
    in_.next();
    const TokenReader::Nesting nesting(in_, 2);
    ExprPtr inner = parse_target(with_namespace);
    in_.expect_operator(")");
    return inner;
  }
  ExprPtr target = make(ExprKind::kName, in_.current().line);
  const std::string& name = in_.expect(TokenKind::kName).text;
  for (const char* word : {"true", "false", "none", "True", "False", "None"})
    if (name == word) in_.bad(format("can't assign to '{}'", name), target->line);
  target->symbol = program_.symbols.intern(name);
  return target;
}

ExprPtr ExpressionParser::parse_target(bool with_namespace, std::string_view end_name) {
  ExprPtr first = parse_one_target(with_namespace);
  if (!in_.is_operator(",")) return first;
  ExprPtr tuple = make(ExprKind::kTuple, first->line);
  tuple->items.push_back(std::move(first));
  while (in_.skip_operator(",")) {
    if (!in_.is(TokenKind::kName) && !in_.is_operator("(")) break;
    if (!end_name.empty() && in_.is_name(end_name)) break;
    tuple->items.push_back(parse_one_target(with_namespace));
  }
  return finish(std::move(tuple));
}

}  // namespace cheetah::jinja
