#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/template/parser.h"

namespace cheetah::jinja {
namespace {

constexpr int kMaxExpressionDepth = 200;

bool is_comparison(const Token& token) {
  static constexpr std::string_view kOperators[] = {"==", "!=", "<", "<=", ">", ">="};
  return token.kind == TokenKind::kOperator &&
         std::find(std::begin(kOperators), std::end(kOperators), token.text) != std::end(kOperators);
}

}  // namespace

ExprPtr Parser::make(ExprKind kind, int line) const {
  auto node = std::make_unique<Expr>();
  node->kind = kind;
  node->line = line;
  return node;
}

ExprPtr Parser::constant(Value value, int line) const {
  ExprPtr node = make(ExprKind::kConstant, line);
  node->constant = std::move(value);
  return node;
}

ExprPtr Parser::finish(ExprPtr node) {
  const auto include = [&](const ExprPtr& child) {
    if (child) node->depth = std::max(node->depth, child->depth + 1);
  };
  for (const ExprPtr& item : node->items) include(item);
  for (const ExprPtr& argument : node->arguments) include(argument);
  for (const Keyword& keyword : node->keywords) include(keyword.value);
  include(node->star);
  include(node->star_star);
  if (node->depth > kMaxExpressionDepth) bad("the expression is nested too deeply", node->line);
  return node;
}

ExprPtr Parser::binary(char op, ExprPtr left, ExprPtr right, int line) {
  ExprPtr node = make(ExprKind::kBinary, line);
  node->op = op;
  node->items.push_back(std::move(left));
  node->items.push_back(std::move(right));
  return finish(std::move(node));
}

ExprPtr Parser::parse_expression(bool with_condition) {
  const Nesting nesting(*this, 2);
  return with_condition ? parse_conditional() : parse_or();
}

ExprPtr Parser::parse_tuple(bool with_condition, std::string_view end_name, bool in_parentheses) {
  const int line = current().line;
  const auto at_end = [&] {
    return is(TokenKind::kVariableEnd) || is(TokenKind::kBlockEnd) || is_operator(")") ||
           (!end_name.empty() && is_name(end_name));
  };
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (!at_end()) {
    items.push_back(parse_expression(with_condition));
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !in_parentheses) bad("Expected an expression");
  ExprPtr tuple = make(ExprKind::kTuple, line);
  tuple->items = std::move(items);
  return finish(std::move(tuple));
}

ExprPtr Parser::parse_conditional() {
  const int line = current().line;
  ExprPtr value = parse_or();
  while (skip_name("if")) {
    ++soft_;
    ExprPtr node = make(ExprKind::kConditional, line);
    node->items.push_back(parse_or());
    node->items.push_back(std::move(value));
    node->items.push_back(skip_name("else") ? parse_expression() : nullptr);
    value = finish(std::move(node));
    --soft_;
  }
  return value;
}

ExprPtr Parser::parse_or() {
  ExprPtr left = parse_and();
  while (is_name("or")) {
    ExprPtr node = make(ExprKind::kOr, next().line);
    node->items.push_back(std::move(left));
    node->items.push_back(parse_and());
    left = finish(std::move(node));
  }
  return left;
}

ExprPtr Parser::parse_and() {
  ExprPtr left = parse_not();
  while (is_name("and")) {
    ExprPtr node = make(ExprKind::kAnd, next().line);
    node->items.push_back(std::move(left));
    node->items.push_back(parse_not());
    left = finish(std::move(node));
  }
  return left;
}

ExprPtr Parser::parse_not() {
  if (!is_name("not")) return parse_compare();
  const Nesting nesting(*this, 1);
  ExprPtr node = make(ExprKind::kNot, next().line);
  node->items.push_back(parse_not());
  return finish(std::move(node));
}

ExprPtr Parser::parse_compare() {
  ExprPtr first = parse_sum();
  ExprPtr node;
  while (true) {
    std::string op;
    if (is_comparison(current()))
      op = next().text;
    else if (skip_name("in"))
      op = "in";
    else if (is_name("not") && look().kind == TokenKind::kName && look().text == "in") {
      next();
      next();
      op = "not in";
    } else {
      break;
    }
    if (!node) {
      node = make(ExprKind::kCompare, current().line);
      node->items.push_back(std::move(first));
    }
    node->operators.push_back(op);
    node->items.push_back(parse_sum());
  }
  return node ? finish(std::move(node)) : std::move(first);
}

ExprPtr Parser::parse_sum() {
  ExprPtr left = parse_concat();
  while (is_operator("+") || is_operator("-")) {
    const Token& token = next();
    left = binary(token.text[0], std::move(left), parse_concat(), token.line);
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  ExprPtr first = parse_product();
  if (!is_operator("~")) return first;
  ExprPtr node = make(ExprKind::kConcat, current().line);
  node->items.push_back(std::move(first));
  while (skip_operator("~")) node->items.push_back(parse_product());
  return finish(std::move(node));
}

ExprPtr Parser::parse_product() {
  ExprPtr left = parse_power();
  while (is_operator("*") || is_operator("/") || is_operator("//") || is_operator("%")) {
    const Token& token = next();
    left = binary(token.text == "//" ? 'f' : token.text[0], std::move(left), parse_power(), token.line);
  }
  return left;
}

ExprPtr Parser::parse_power() {
  ExprPtr left = parse_unary();
  while (is_operator("**")) {
    const int line = next().line;
    left = binary('p', std::move(left), parse_unary(), line);
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  ExprPtr node;
  if (is_operator("-") || is_operator("+")) {
    const Nesting nesting(*this, 1);
    const Token& sign = next();
    node = make(sign.text == "-" ? ExprKind::kNegative : ExprKind::kPositive, sign.line);
    node->items.push_back(parse_unary(false));
    node = finish(std::move(node));
  } else {
    node = parse_primary();
  }
  node = parse_postfix(std::move(node));
  return with_filter ? parse_filters_and_tests(std::move(node)) : std::move(node);
}

ExprPtr Parser::parse_primary() {
  const Token& token = current();
  switch (token.kind) {
    case TokenKind::kName:
      return parse_name();
    case TokenKind::kString:
      return parse_string();
    case TokenKind::kInteger:
      next();
      return constant(Value::integer(token.integer), token.line);
    case TokenKind::kFloat:
      next();
      return constant(Value::number(token.number), token.line);
    default:
      break;
  }
  if (is_operator("[")) return parse_list();
  if (is_operator("{")) return parse_dict();
  if (is_operator("(")) {
    next();
    ExprPtr node = parse_tuple(true, {}, true);
    expect_operator(")");
    return node;
  }
  bad(format("unexpected '{}'", token.kind == TokenKind::kEnd ? "end of template" : printable(token.text)));
}

ExprPtr Parser::parse_name() {
  const Token& token = next();
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
void Parser::note_special(const std::string& name) {
  for (Signature* function : functions_) {
    if (name == "caller") function->uses_caller = true;
    if (name == "varargs") function->uses_varargs = true;
    if (name == "kwargs") function->uses_kwargs = true;
  }
}

ExprPtr Parser::parse_string() {
  const int line = current().line;
  std::string text;
  while (is(TokenKind::kString)) text += next().text;
  return constant(Value::string(std::move(text)), line);
}

ExprPtr Parser::parse_list() {
  ExprPtr node = make(ExprKind::kList, next().line);
  while (!is_operator("]")) {
    if (!node->items.empty()) expect_operator(",");
    if (is_operator("]")) break;
    node->items.push_back(parse_expression());
  }
  expect_operator("]");
  return finish(std::move(node));
}

ExprPtr Parser::parse_dict() {
  ExprPtr node = make(ExprKind::kDict, next().line);
  while (!is_operator("}")) {
    if (!node->items.empty()) expect_operator(",");
    if (is_operator("}")) break;
    node->items.push_back(parse_expression());
    expect_operator(":");
    node->items.push_back(parse_expression());
  }
  expect_operator("}");
  return finish(std::move(node));
}

}  // namespace cheetah::jinja
