// SPDX-License-Identifier: MIT
#include "model/template/token_reader.h"

#include "base/error.h"
#include "base/format.h"

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

}  // namespace

TokenReader::Nesting::Nesting(TokenReader& reader, int weight) : reader_(reader), weight_(weight) {
  reader_.nesting_ += weight;
  if (reader_.nesting_ > kMaxNesting) reader_.bad("the template is nested too deeply");
}

const Token& TokenReader::next() {
  const Token& token = tokens_[at_];
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool TokenReader::skip_operator(std::string_view op) {
  if (!is_operator(op)) return false;
  next();
  return true;
}

bool TokenReader::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  next();
  return true;
}

const Token& TokenReader::expect(TokenKind kind) {
  if (!is(kind)) {
    const char* wanted = kind == TokenKind::kName          ? "a name"
                         : kind == TokenKind::kBlockEnd    ? "end of statement block"
                         : kind == TokenKind::kVariableEnd ? "end of print statement"
                                                           : "another token";
    bad(format("expected {}, got '{}'", wanted, describe(current())));
  }
  return next();
}

void TokenReader::expect_operator(std::string_view op) {
  if (!skip_operator(op)) bad(format("expected token '{}', got '{}'", op, describe(current())));
}

void TokenReader::expect_name(std::string_view name) {
  if (!skip_name(name)) bad(format("expected token '{}', got '{}'", name, describe(current())));
}

void TokenReader::bad(const std::string& message, int line) const { throw SyntaxError(line, message); }

}  // namespace cheetah::jinja
