// SPDX-License-Identifier: MIT
#include "lab/analysis/lane_pattern.h"

#include <cctype>
#include <charconv>
#include <optional>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"

namespace cheetah::analysis {

using Child = std::shared_ptr<const LanePattern::Node>;

struct LanePattern::Node {
  // 'n' a number, 'l' the lane, '~' and '_' (minus) of `left` alone, '<' and '>' shifts, else the operator
  // itself
  char kind = 'n';
  int64_t value = 0;
  Child left{}, right{};
};

namespace {

constexpr size_t kMaxFormula = 1024;
constexpr int kMaxDepth = 64;

int64_t divided(char kind, int64_t a, int64_t b) {
  if (b == 0) throw Error("the formula divides by zero");
  if (b == -1) return kind == '/' ? (Checked<int64_t>(0) - Checked<int64_t>(a)).get() : 0;
  return kind == '/' ? a / b : a % b;
}

int64_t shifted(char kind, int64_t a, int64_t b) {
  if (b < 0 || b > 62) throw Error(format("the formula shifts by {}; expected 0 to 62", b));
  return kind == '>' ? a >> b : (Checked<int64_t>(a) * Checked<int64_t>(int64_t{1} << b)).get();
}

int64_t applied(char kind, int64_t a, int64_t b) {
  const Checked<int64_t> left(a), right(b);
  switch (kind) {
    case '+':
      return (left + right).get();
    case '-':
      return (left - right).get();
    case '*':
      return (left * right).get();
    case '&':
      return a & b;
    case '|':
      return a | b;
    case '^':
      return a ^ b;
    case '<':
    case '>':
      return shifted(kind, a, b);
    default:
      return divided(kind, a, b);
  }
}

int64_t evaluated(const LanePattern::Node& node, int64_t lane) {
  switch (node.kind) {
    case 'n':
      return node.value;
    case 'l':
      return lane;
    case '~':
      return ~evaluated(*node.left, lane);
    case '_':
      return applied('-', 0, evaluated(*node.left, lane));
    default:
      return applied(node.kind, evaluated(*node.left, lane), evaluated(*node.right, lane));
  }
}

// Binary operators, the loosest first, as in C.
constexpr std::string_view kLevels[] = {"|", "^", "&", "<>", "+-", "*/%"};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Child all() {
    Child root = binary(0);
    skip_spaces();
    if (at_ < text_.size()) fail("an operator");
    return root;
  }

 private:
  [[noreturn]] void fail(std::string_view expected) const {
    throw Error(
        format("formula '{}': expected {} at character {}", printable(text_, 200), expected, at_ + 1));
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(char c) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::optional<char> take_operator(std::string_view among) {
    skip_spaces();
    if (at_ >= text_.size() || among.find(text_[at_]) == std::string_view::npos) return std::nullopt;
    const char found = text_[at_++];
    if ((found == '<' || found == '>') && !take(found)) fail(std::string("a second ") + found);
    return found;
  }

  Child binary(size_t level) {
    if (level == std::size(kLevels)) return unary();
    Child left = binary(level + 1);
    while (const auto kind = take_operator(kLevels[level])) {
      Child right = binary(level + 1);
      left =
          std::make_shared<LanePattern::Node>(LanePattern::Node{*kind, 0, std::move(left), std::move(right)});
    }
    return left;
  }

  Child unary() {
    if (++depth_ > kMaxDepth) throw Error(format("formula: nested deeper than {}", kMaxDepth));
    Child node;
    if (take('-'))
      node = std::make_shared<LanePattern::Node>(LanePattern::Node{'_', 0, unary(), {}});
    else if (take('~'))
      node = std::make_shared<LanePattern::Node>(LanePattern::Node{'~', 0, unary(), {}});
    else if (take('(')) {
      node = binary(0);
      if (!take(')')) fail("')'");
    } else {
      node = operand();
    }
    --depth_;
    return node;
  }

  Child operand() {
    skip_spaces();
    const std::string_view rest = text_.substr(at_);
    for (const std::string_view name : {"lane", "tid", "threadIdx.x", "i", "t"})
      if (rest.starts_with(name) &&
          (rest.size() == name.size() || !std::isalnum(static_cast<unsigned char>(rest[name.size()])))) {
        at_ += name.size();
        return std::make_shared<LanePattern::Node>(LanePattern::Node{'l'});
      }
    const bool hexadecimal = rest.starts_with("0x") || rest.starts_with("0X");
    const char* begin = rest.data() + (hexadecimal ? 2 : 0);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(begin, rest.data() + rest.size(), value, hexadecimal ? 16 : 10);
    if (error != std::errc() || end == begin || value < 0) fail("a number, 'lane' or '('");
    at_ += static_cast<size_t>(end - rest.data());
    return std::make_shared<LanePattern::Node>(LanePattern::Node{'n', value});
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

LanePattern LanePattern::parse(std::string_view formula) {
  if (formula.size() > kMaxFormula) throw Error(format("formula: longer than {} characters", kMaxFormula));
  return LanePattern(Parser(formula).all());
}

int64_t LanePattern::at(int64_t lane) const { return evaluated(*root_, lane); }

}  // namespace cheetah::analysis
