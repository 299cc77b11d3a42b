// SPDX-License-Identifier: MIT
#pragma once
// The tokens of a template, read one after the other, and how deeply what they say may be nested.
#include <string>
#include <string_view>
#include <vector>

#include "model/template/lexer.h"

namespace cheetah::jinja {

class TokenReader {
 public:
  explicit TokenReader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }  // the one after it
  const Token& previous() const { return tokens_[at_ - 1]; }
  const Token& next();  // the current one, which is read
  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_operator(std::string_view op) const { return is(TokenKind::kOperator) && current().text == op; }
  bool is_name(std::string_view name) const { return is(TokenKind::kName) && current().text == name; }
  bool skip_operator(std::string_view op);
  bool skip_name(std::string_view name);
  const Token& expect(TokenKind kind);
  void expect_operator(std::string_view op);
  void expect_name(std::string_view name);
  [[noreturn]] void bad(const std::string& message) const { bad(message, current().line); }
  [[noreturn]] void bad(const std::string& message, int line) const;

  // Counts nesting while a recursive function runs, so that no source overflows the stack.
  class Nesting {
   public:
    Nesting(TokenReader& reader, int weight);
    ~Nesting() { reader_.nesting_ -= weight_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    TokenReader& reader_;
    int weight_;
  };

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace cheetah::jinja
