// SPDX-License-Identifier: MIT
#include "model/template/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/format.h"
#include "model/template/text.h"

namespace cheetah::jinja {
namespace {

// Only \n, \r\n and \r end lines, and one newline at the very end is dropped.
std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit_of(char c, int base) {
  if (c >= '0' && c <= '9') return c - '0' < base;
  const char small = static_cast<char>(c | 0x20);
  return base == 16 && small >= 'a' && small <= 'f';
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)), rest_(source_) {}

  std::vector<Token> run() {
    while (at_ < rest_.size()) root();
    push(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void bad(const std::string& message) const { throw SyntaxError(line_, message); }

  void push(TokenKind kind, std::string text) {
    Token token;
    token.kind = kind;
    token.line = line_;
    token.text = std::move(text);
    tokens_.push_back(std::move(token));
  }

  bool starts(std::string_view prefix) const { return rest_.substr(at_).starts_with(prefix); }
  char peek(size_t ahead = 0) const { return at_ + ahead < rest_.size() ? rest_[at_ + ahead] : '\0'; }

  void advance(size_t count) {
    line_ += static_cast<int>(std::count(rest_.begin() + static_cast<ptrdiff_t>(at_),
        rest_.begin() + static_cast<ptrdiff_t>(at_ + count), '\n'));
    at_ += count;
  }

  size_t skip_spaces_from(size_t at) const {
    for (size_t next = at; next < rest_.size(); at = next)
      if (!is_space(next_code_point(rest_, next))) break;
    return at;
  }

  // Text up to the next tag, then the tag.
  void root() {
    const size_t start = at_;
    size_t tag = start;
    for (;; ++tag) {
      tag = rest_.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= rest_.size()) {
        data(rest_.substr(start));
        advance(rest_.size() - start);
        return;
      }
      const char next = rest_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    const char kind = rest_[tag + 1];
    const char sign = tag + 2 < rest_.size() ? rest_[tag + 2] : '\0';
    data(trimmed(rest_.substr(start, tag - start), sign, kind == '{'));
    advance(tag - start);
    if (kind == '#') return comment();
    if (kind == '%' && raw()) return;
    const bool variable = kind == '{';
    push(variable ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, variable ? "{{" : "{%");
    advance(sign == '-' || sign == '+' ? 3 : 2);
    inside(variable);
  }

  void data(std::string_view text) {
    if (!text.empty()) push(TokenKind::kData, std::string(text));
  }

  // What a tag leaves of the text before it.
  std::string_view trimmed(std::string_view text, char sign, bool variable) const {
    if (sign == '-') return strip(text, Side::kRight);
    if (sign == '+' || variable) return text;
    const size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return text;
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    return strip(text.substr(line)).empty() ? text.substr(0, line) : text;
  }

  // Length of the end tag at `at` ("%}" with its sign and the whitespace it takes); 0 when none is there.
  size_t end_tag(size_t at, std::string_view tag, bool trims_newline) const {
    const std::string_view here = rest_.substr(at);
    if (here.starts_with("-") && here.substr(1).starts_with(tag))
      return skip_spaces_from(at + 1 + tag.size()) - at;
    if (trims_newline && here.starts_with("+") && here.substr(1).starts_with(tag)) return 1 + tag.size();
    if (!here.starts_with(tag)) return 0;
    const bool newline = trims_newline && here.size() > tag.size() && here[tag.size()] == '\n';
    return tag.size() + (newline ? 1 : 0);
  }

  void close(size_t length) {
    advance(length);
    line_starting_ = length > 0 && rest_[at_ - 1] == '\n';
  }

  void comment() {
    for (size_t at = at_ + 2; at < rest_.size(); ++at) {
      if (const size_t length = end_tag(at, "#}", true)) return close(at + length - at_);
    }
    bad("Missing end of comment tag");
  }

  size_t word_tag(size_t at, std::string_view word) const {  // end of "{% word", 0 when it is another tag
    if (!rest_.substr(at).starts_with("{%")) return 0;
    at += 2;
    if (at < rest_.size() && (rest_[at] == '-' || rest_[at] == '+')) ++at;
    at = skip_spaces_from(at);
    if (!rest_.substr(at).starts_with(word)) return 0;
    return skip_spaces_from(at + word.size());
  }

  bool raw() {
    const size_t end = word_tag(at_, "raw");
    if (end == 0) return false;
    const size_t length = end_tag(end, "%}", false);
    if (length == 0) return false;
    close(end + length - at_);
    for (size_t at = at_; (at = rest_.find("{%", at)) != std::string_view::npos; ++at) {
      const size_t word_end = word_tag(at, "endraw");
      const size_t tail = word_end == 0 ? 0 : end_tag(word_end, "%}", true);
      if (tail == 0) continue;
      const char sign = at + 2 < rest_.size() ? rest_[at + 2] : '\0';
      data(trimmed(rest_.substr(at_, at - at_), sign, false));
      close(word_end + tail - at_);
      return true;
    }
    bad("Missing end of raw directive");
  }

  void inside(bool variable) {
    std::string open;  // brackets waiting for their partner
    while (at_ < rest_.size()) {
      if (open.empty()) {
        const size_t length = end_tag(at_, variable ? "}}" : "%}", !variable);
        if (length != 0) {
          push(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, variable ? "}}" : "%}");
          return close(length);
        }
      }
      one_token(open);
    }
  }

  void one_token(std::string& open) {
    const char c = peek();
    size_t next = at_;
    const char32_t code_point = next_code_point(rest_, next);
    if (is_space(code_point)) return advance(next - at_);
    if (c >= '0' && c <= '9') return number();
    if (c == '"' || c == '\'') return string();
    if (is_word(code_point)) return name();
    operation(open);
  }

  void name() {
    size_t end = at_;
    for (size_t next = end; next < rest_.size(); end = next)
      if (!is_word(next_code_point(rest_, next))) break;
    const std::string_view text = rest_.substr(at_, end - at_);
    if (!is_identifier(text)) bad("Invalid character in identifier");
    push(TokenKind::kName, std::string(text));
    advance(text.size());
  }

  void string() {
    const char quote = peek();
    size_t end = at_ + 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) bad(format("unexpected char {}: the string has no end", quote));
    push(TokenKind::kString, unescape(rest_.substr(at_ + 1, end - at_ - 1), line_));
    advance(end + 1 - at_);
  }

  size_t digits_from(size_t at, int base) const {  // digits, single underscores between them
    size_t end = at;
    while (end < rest_.size()) {
      if (is_digit_of(rest_[end], base))
        ++end;
      else if (rest_[end] == '_' && end + 1 < rest_.size() && is_digit_of(rest_[end + 1], base))
        end += 2;
      else
        break;
    }
    return end;
  }

  void number() {
    const char prefix = static_cast<char>(peek(1) | 0x20);
    const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
    if (peek() == '0' && base != 10 && is_digit_of(peek(2), base)) return integer(at_ + 2, base);
    const bool after_dot = at_ > 0 && rest_[at_ - 1] == '.';
    size_t end = digits_from(at_, 10);
    const size_t whole_end = end;
    if (!after_dot && end + 1 < rest_.size() && rest_[end] == '.' && is_digit_of(rest_[end + 1], 10))
      end = digits_from(end + 1, 10);
    if (!after_dot && end < rest_.size() && (rest_[end] | 0x20) == 'e') {
      size_t exponent = end + 1;
      if (exponent < rest_.size() && (rest_[exponent] == '+' || rest_[exponent] == '-')) ++exponent;
      if (exponent < rest_.size() && is_digit_of(rest_[exponent], 10)) end = digits_from(exponent, 10);
    }
    if (end == whole_end) return integer(at_, 10);
    floating(end);
  }

  static std::string without_underscores(std::string_view text) {
    std::string out(text);
    std::erase(out, '_');
    return out;
  }

  void floating(size_t end) {
    const std::string text = without_underscores(rest_.substr(at_, end - at_));
    double value = 0;
    const auto [last, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (problem != std::errc() || last != text.data() + text.size())
      bad(format("float literal is out of range: {}", printable(text)));
    push(TokenKind::kFloat, text);
    tokens_.back().number = value;
    advance(end - at_);
  }

  void integer(size_t start, int base) {
    size_t end = digits_from(start, base);
    if (base == 10 && rest_[start] == '0') {  // 0 and 00, but 01 is two tokens
      end = start + 1;
      while (end < rest_.size() &&
             (rest_[end] == '0' || (rest_[end] == '_' && end + 1 < rest_.size() && rest_[end + 1] == '0')))
        ++end;
    }
    const std::string text = without_underscores(rest_.substr(start, end - start));
    int64_t value = 0;
    const auto [last, problem] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (problem != std::errc()) bad(format("integer literal is out of range: {}", printable(text)));
    push(TokenKind::kInteger, text);
    tokens_.back().integer = value;
    advance(end - at_);
  }

  void operation(std::string& open) {
    static constexpr std::array<std::string_view, 26> kOperators = {"//", "**", "==", "!=", ">=", "<=", "+",
        "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"};
    const auto found =
        std::find_if(kOperators.begin(), kOperators.end(), [&](auto op) { return starts(op); });
    if (found == kOperators.end()) {
      size_t next = at_;
      next_code_point(rest_, next);
      bad(format("unexpected char '{}' at {}", printable(rest_.substr(at_, next - at_)), at_));
    }
    balance(open, (*found)[0], found->size());
    push(TokenKind::kOperator, std::string(*found));
    advance(found->size());
  }

  void balance(std::string& open, char c, size_t length) const {
    if (length != 1) return;
    if (c == '{')
      open += '}';
    else if (c == '(')
      open += ')';
    else if (c == '[')
      open += ']';
    else if (c == '}' || c == ')' || c == ']') {
      if (open.empty()) bad(format("unexpected '{}'", c));
      if (open.back() != c) bad(format("unexpected '{}', expected '{}'", c, open.back()));
      open.pop_back();
    }
  }

  std::string source_;
  std::string_view rest_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace cheetah::jinja
