// SPDX-License-Identifier: MIT
// What follows a value: attributes, elements, calls, filters and tests.
#include "base/error.h"
#include "base/format.h"
#include "model/template/builtins.h"
#include "model/template/expression_parser.h"

namespace cheetah::jinja {

ExprPtr ExpressionParser::parse_postfix(ExprPtr node) {
  while (true) {
    if (in_.is_operator(".") || in_.is_operator("["))
      node = parse_subscript(std::move(node));
    else if (in_.is_operator("("))
      node = parse_call(std::move(node));
    else
      return node;
  }
}

ExprPtr ExpressionParser::parse_filters_and_tests(ExprPtr node) {
  while (true) {
    if (in_.is_operator("|"))
      node = parse_filter(std::move(node));
    else if (in_.is_name("is"))
      node = parse_test(std::move(node));
    else if (in_.is_operator("("))
      node = parse_call(std::move(node));
    else
      return node;
  }
}

ExprPtr ExpressionParser::parse_subscript(ExprPtr node) {
  const int line = in_.current().line;
  if (in_.skip_operator(".")) {
    const Token& token = in_.next();
    ExprPtr result = make(ExprKind::kAttribute, line);
    if (token.kind == TokenKind::kInteger)
      result->kind = ExprKind::kItem;
    else if (token.kind != TokenKind::kName)
      in_.bad("expected name or number", token.line);
    result->text = token.text;
    result->items.push_back(std::move(node));
    if (token.kind == TokenKind::kInteger)
      result->items.push_back(constant(Value::integer(token.integer), line));
    return finish(std::move(result));
  }
  in_.expect_operator("[");
  std::vector<ExprPtr> indexes;
  while (!in_.is_operator("]")) {
    if (!indexes.empty()) in_.expect_operator(",");
    indexes.push_back(parse_index());
  }
  in_.expect_operator("]");
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
      if (index->kind == ExprKind::kSlice) in_.bad("a slice cannot be part of a tuple", line);
    ExprPtr tuple = make(ExprKind::kTuple, line);
    tuple->items = std::move(indexes);
    result->items.push_back(finish(std::move(tuple)));
  }
  return finish(std::move(result));
}

ExprPtr ExpressionParser::parse_index() {
  ExprPtr start;
  const int line = in_.current().line;
  if (!in_.is_operator(":")) {
    start = parse_expression();
    if (!in_.is_operator(":")) return start;
  }
  ExprPtr slice = make(ExprKind::kSlice, line);
  slice->items.resize(4);
  slice->items[1] = std::move(start);
  for (size_t part = 2; part < 4 && in_.skip_operator(":"); ++part)
    if (!in_.is_operator(":") && !in_.is_operator("]") && !in_.is_operator(","))
      slice->items[part] = parse_expression();
  return slice;
}

void ExpressionParser::parse_arguments(Expr& call) {
  const int line = in_.current().line;
  in_.expect_operator("(");
  bool first = true;
  while (!in_.is_operator(")")) {
    if (!first) {
      in_.expect_operator(",");
      if (in_.is_operator(")")) break;
    }
    first = false;
    parse_argument(call, line);
  }
  in_.expect_operator(")");
}

void ExpressionParser::parse_argument(Expr& call, int line) {
  const auto require = [&](bool fine) {
    if (!fine) in_.bad("invalid syntax for function call expression", line);
  };
  if (in_.skip_operator("*")) {
    require(!call.star && !call.star_star);
    call.star = parse_expression();
  } else if (in_.skip_operator("**")) {
    require(!call.star_star);
    call.star_star = parse_expression();
  } else if (in_.is(TokenKind::kName) && in_.look().kind == TokenKind::kOperator && in_.look().text == "=") {
    require(!call.star_star);
    std::string name = in_.next().text;
    in_.next();
    for (const Keyword& keyword : call.keywords)
      if (keyword.name == name) in_.bad(format("keyword argument repeated: {}", name), line);
    call.keywords.push_back({std::move(name), parse_expression()});
  } else {
    require(!call.star && !call.star_star && call.keywords.empty());
    call.arguments.push_back(parse_expression());
  }
}

ExprPtr ExpressionParser::parse_call(ExprPtr node) {
  ExprPtr call = make(ExprKind::kCall, in_.current().line);
  call->items.push_back(std::move(node));
  parse_arguments(*call);
  return finish(std::move(call));
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = in_.expect(TokenKind::kName).text;
  while (in_.skip_operator(".")) name += "." + in_.expect(TokenKind::kName).text;
  return name;
}

ExprPtr ExpressionParser::parse_filter(ExprPtr node, bool at_name) {
  while (at_name || in_.skip_operator("|")) {
    at_name = false;
    ExprPtr filter = make(ExprKind::kFilter, in_.current().line);
    filter->text = parse_dotted_name();
    if (conditionals_ == 0 && !find_filter(filter->text))
      in_.bad(format("unknown filter: No filter named '{}'.", printable(filter->text)), filter->line);
    filter->items.push_back(std::move(node));
    if (in_.is_operator("(")) parse_arguments(*filter);
    node = finish(std::move(filter));
  }
  return node;
}

ExprPtr ExpressionParser::parse_test(ExprPtr node) {
  ExprPtr test = make(ExprKind::kTest, in_.next().line);
  const bool negated = in_.skip_name("not");
  test->text = parse_dotted_name();
  if (conditionals_ == 0 && !find_test(test->text))
    in_.bad(format("unknown test: No test named '{}'.", printable(test->text)), test->line);
  test->items.push_back(std::move(node));
  const bool operand = in_.is(TokenKind::kName) || in_.is(TokenKind::kString) ||
                       in_.is(TokenKind::kInteger) || in_.is(TokenKind::kFloat) || in_.is_operator("[") ||
                       in_.is_operator("{");
  if (in_.is_operator("(")) {
    parse_arguments(*test);
  } else if (operand && !in_.is_name("else") && !in_.is_name("or") && !in_.is_name("and")) {
    if (in_.is_name("is")) in_.bad("You cannot chain multiple tests with is");
    test->arguments.push_back(parse_postfix(parse_primary()));
  }
  test = finish(std::move(test));
  if (!negated) return test;
  ExprPtr node_not = make(ExprKind::kNot, test->line);
  node_not->items.push_back(std::move(test));
  return finish(std::move(node_not));
}

}  // namespace cheetah::jinja
