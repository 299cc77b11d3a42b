// What follows a value: attributes, elements, calls, filters and tests.
#include "base/error.h"
#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/parser.h"

namespace cheetah::jinja {

ExprPtr Parser::parse_postfix(ExprPtr node) {
  while (true) {
    if (is_operator(".") || is_operator("["))
      node = parse_subscript(std::move(node));
    else if (is_operator("("))
      node = parse_call(std::move(node));
    else
      return node;
  }
}

ExprPtr Parser::parse_filters_and_tests(ExprPtr node) {
  while (true) {
    if (is_operator("|"))
      node = parse_filter(std::move(node));
    else if (is_name("is"))
      node = parse_test(std::move(node));
    else if (is_operator("("))
      node = parse_call(std::move(node));
    else
      return node;
  }
}

ExprPtr Parser::parse_subscript(ExprPtr node) {
  const int line = current().line;
  if (skip_operator(".")) {
    const Token& token = next();
    ExprPtr result = make(ExprKind::kAttribute, line);
    if (token.kind == TokenKind::kInteger)
      result->kind = ExprKind::kItem;
    else if (token.kind != TokenKind::kName)
      bad("expected name or number", token.line);
    result->text = token.text;
    result->items.push_back(std::move(node));
    if (token.kind == TokenKind::kInteger)
      result->items.push_back(constant(Value::integer(token.integer), line));
    return finish(std::move(result));
  }
  expect_operator("[");
  std::vector<ExprPtr> indexes;
  while (!is_operator("]")) {
    if (!indexes.empty()) expect_operator(",");
    indexes.push_back(parse_index());
  }
  expect_operator("]");
  if (indexes.size() == 1 && indexes[0]->kind == ExprKind::kSlice) {
    indexes[0]->items[0] = std::move(node);
    return finish(std::move(indexes[0]));
  }
  ExprPtr result = make(ExprKind::kItem, line);
  result->items.push_back(std::move(node));
  if (indexes.size() == 1) {
    result->items.push_back(std::move(indexes[0]));
  } else {
    for (const ExprPtr& index : indexes)
      if (index->kind == ExprKind::kSlice) bad("a slice cannot be part of a tuple", line);
    ExprPtr tuple = make(ExprKind::kTuple, line);
    tuple->items = std::move(indexes);
    result->items.push_back(finish(std::move(tuple)));
  }
  return finish(std::move(result));
}

ExprPtr Parser::parse_index() {
  ExprPtr start;
  const int line = current().line;
  if (!is_operator(":")) {
    start = parse_expression();
    if (!is_operator(":")) return start;
  }
  ExprPtr slice = make(ExprKind::kSlice, line);
  slice->items.resize(4);
  slice->items[1] = std::move(start);
  for (size_t part = 2; part < 4 && skip_operator(":"); ++part)
    if (!is_operator(":") && !is_operator("]") && !is_operator(",")) slice->items[part] = parse_expression();
  return slice;
}

void Parser::parse_arguments(Expr& call) {
  const int line = current().line;
  expect_operator("(");
  bool first = true;
  while (!is_operator(")")) {
    if (!first) {
      expect_operator(",");
      if (is_operator(")")) break;
    }
    first = false;
    parse_argument(call, line);
  }
  expect_operator(")");
}

void Parser::parse_argument(Expr& call, int line) {
  const auto require = [&](bool fine) {
    if (!fine) bad("invalid syntax for function call expression", line);
  };
  if (skip_operator("*")) {
    require(!call.star && !call.star_star);
    call.star = parse_expression();
  } else if (skip_operator("**")) {
    require(!call.star_star);
    call.star_star = parse_expression();
  } else if (is(TokenKind::kName) && look().kind == TokenKind::kOperator && look().text == "=") {
    require(!call.star_star);
    std::string name = next().text;
    next();
    for (const Keyword& keyword : call.keywords)
      if (keyword.name == name) bad(format("keyword argument repeated: {}", name), line);
    call.keywords.push_back({std::move(name), parse_expression()});
  } else {
    require(!call.star && !call.star_star && call.keywords.empty());
    call.arguments.push_back(parse_expression());
  }
}

ExprPtr Parser::parse_call(ExprPtr node) {
  ExprPtr call = make(ExprKind::kCall, current().line);
  call->items.push_back(std::move(node));
  parse_arguments(*call);
  return finish(std::move(call));
}

std::string Parser::parse_dotted_name() {
  std::string name = expect(TokenKind::kName).text;
  while (skip_operator(".")) name += "." + expect(TokenKind::kName).text;
  return name;
}

ExprPtr Parser::parse_filter(ExprPtr node, bool at_name) {
  while (at_name || skip_operator("|")) {
    at_name = false;
    ExprPtr filter = make(ExprKind::kFilter, current().line);
    filter->text = parse_dotted_name();
    if (soft_ == 0 && !find_filter(filter->text))
      bad(format("unknown filter: No filter named '{}'.", printable(filter->text)), filter->line);
    filter->items.push_back(std::move(node));
    if (is_operator("(")) parse_arguments(*filter);
    node = finish(std::move(filter));
  }
  return node;
}

ExprPtr Parser::parse_test(ExprPtr node) {
  ExprPtr test = make(ExprKind::kTest, next().line);
  const bool negated = skip_name("not");
  test->text = parse_dotted_name();
  if (soft_ == 0 && !find_test(test->text))
    bad(format("unknown test: No test named '{}'.", printable(test->text)), test->line);
  test->items.push_back(std::move(node));
  const bool operand = is(TokenKind::kName) || is(TokenKind::kString) || is(TokenKind::kInteger) ||
                       is(TokenKind::kFloat) || is_operator("[") || is_operator("{");
  if (is_operator("(")) {
    parse_arguments(*test);
  } else if (operand && !is_name("else") && !is_name("or") && !is_name("and")) {
    if (is_name("is")) bad("You cannot chain multiple tests with is");
    test->arguments.push_back(parse_postfix(parse_primary()));
  }
  test = finish(std::move(test));
  if (!negated) return test;
  ExprPtr node_not = make(ExprKind::kNot, test->line);
  node_not->items.push_back(std::move(test));
  return finish(std::move(node_not));
}

}  // namespace cheetah::jinja
