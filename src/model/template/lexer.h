// SPDX-License-Identifier: MIT
#pragma once
// Template source → tokens, with the whitespace rules of chat templates (trim_blocks, lstrip_blocks).
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/template/failure.h"

namespace cheetah::jinja {

enum class TokenKind {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // data, name, operator or the value of a string
  int64_t integer = 0;
  double number = 0;
};

// An error in the source, at a line.
class SyntaxError : public Failure {
 public:
  SyntaxError(int line, const std::string& message) : Failure(message), line_(line) {}
  int line() const { return line_; }

 private:
  int line_;
};

std::vector<Token> tokenize(std::string_view source);

// The text between the quotes of a string literal, its escapes resolved.
std::string unescape(std::string_view body, int line);

}  // namespace cheetah::jinja
