// SPDX-License-Identifier: MIT
#include "engine/grammar/ebnf.h"

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/utf8.h"

namespace cheetah {
namespace {

bool name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class EbnfParser {
 public:
  EbnfParser(std::string_view text, GrammarTree& tree) : text_(text), tree_(tree) {}

  void parse() {
    tree_.budget().check_text(text_);
    skip_space(true);
    while (at_ < text_.size()) parse_rule();
    const auto root = rules_.find("root");
    if (root == rules_.end() || !root->second.defined)
      throw Error("grammar: rule \"root\" is not defined: the grammar starts there");
    for (const auto& [name, rule] : rules_)
      if (!rule.defined)
        throw Error(format("grammar: rule \"{}\" is not defined (line {})", name, line_of(rule.first_use)));
    tree_.set_root(root->second.id);
  }

 private:
  struct NamedRule {
    RuleId id;
    size_t first_use;
    bool defined = false;
  };

  [[noreturn]] void fail(std::string_view problem) const { fail_at(at_, problem); }
  [[noreturn]] void fail_at(size_t at, std::string_view problem) const {
    size_t line_start = 0;
    for (size_t i = 0; i < at && i < text_.size(); ++i)
      if (text_[i] == '\n') line_start = i + 1;
    throw Error(format("grammar: {} (line {}, column {})", problem, line_of(at), at - line_start + 1));
  }
  int64_t line_of(size_t at) const {
    int64_t line = 1;
    for (size_t i = 0; i < at && i < text_.size(); ++i) line += text_[i] == '\n' ? 1 : 0;
    return line;
  }
  bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool take(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }

  void skip_space(bool lines_too) {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '#')
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
      else if (!(text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r' ||
                   (lines_too && text_[at_] == '\n')))
        return;
    }
  }

  // A line break ends a rule unless the next line goes on with "|": the name before "::=" is never part of
  // it.
  bool at_rule_end(bool in_group) {
    skip_space(true);
    if (at_ >= text_.size()) return true;
    if (in_group || !name_character(text_[at_])) return false;
    size_t after = at_;
    while (after < text_.size() && name_character(text_[after])) ++after;
    while (after < text_.size() && (text_[after] == ' ' || text_[after] == '\t')) ++after;
    return text_.substr(after, 3) == "::=";
  }

  std::string parse_name() {
    const size_t start = at_;
    while (at_ < text_.size() && name_character(text_[at_])) ++at_;
    if (at_ == start) fail("expected a rule name");
    return std::string(text_.substr(start, at_ - start));
  }

  NamedRule& rule_called(const std::string& name, size_t at) {
    const auto known = rules_.find(name);
    if (known != rules_.end()) return known->second;
    return rules_.emplace(name, NamedRule{tree_.declare_rule(name), at}).first->second;
  }

  void parse_rule() {
    const size_t start = at_;
    const std::string name = parse_name();
    skip_space(false);
    if (text_.substr(at_, 3) != "::=") fail("expected \"::=\" after the rule's name");
    at_ += 3;
    NamedRule& rule = rule_called(name, start);
    if (rule.defined) fail_at(start, format("rule \"{}\" is defined twice", name));
    rule.defined = true;
    tree_.define_rule(rule.id, parse_alternatives(0));
    skip_space(true);
    if (next_is(')')) fail("\")\" without \"(\"");
  }

  ExprId parse_alternatives(int depth) {
    tree_.budget().check_nesting(depth);
    std::vector<ExprId> branches = {parse_sequence(depth)};
    while (take('|')) branches.push_back(parse_sequence(depth));
    return tree_.choice(std::move(branches));
  }

  ExprId parse_sequence(int depth) {
    std::vector<ExprId> parts;
    while (!at_rule_end(depth > 0) && !next_is('|') && !next_is(')')) {
      ExprId part = parse_item(depth);
      if (parse_quantifier(part) && (next_is('*') || next_is('+') || next_is('?') || next_is('{')))
        fail("a quantifier after a quantifier");
      parts.push_back(part);
    }
    return parts.empty() ? tree_.empty() : tree_.sequence(std::move(parts));
  }

  ExprId parse_item(int depth) {
    const size_t start = at_;
    if (take('"')) return parse_literal(start);
    if (take('[')) return tree_.characters(parse_class(start));
    if (take('.')) return tree_.characters(CodepointSet::all());
    if (take('(')) {
      const ExprId body = parse_alternatives(depth + 1);
      if (!take(')')) fail_at(start, "\"(\" without \")\"");
      return body;
    }
    if (name_character(text_[at_])) {
      const std::string name = parse_name();
      return tree_.rule(rule_called(name, start).id);
    }
    fail(format("unexpected \"{}\"", printable(text_.substr(at_, 1))));
  }

  bool parse_quantifier(ExprId& part) {
    const size_t start = at_;
    int64_t min = 0, max = kUnbounded;
    if (take('+'))
      min = 1;
    else if (take('?'))
      max = 1;
    else if (take('{'))
      parse_counts(min, max);
    else if (!take('*'))
      return false;
    if (max != kUnbounded && min > max) fail_at(start, "the counts of a repetition are in the wrong order");
    tree_.budget().check_repetition(std::max(min, max));
    part = tree_.repeat(part, min, max);
    return true;
  }

  void parse_counts(int64_t& min, int64_t& max) {
    skip_space(false);
    if (!next_is(',')) min = parse_count();
    max = min;
    skip_space(false);
    if (take(',')) {
      skip_space(false);
      max = next_is('}') ? kUnbounded : parse_count();
      skip_space(false);
    }
    if (!take('}')) fail("expected \"}\" after the counts of a repetition");
  }

  int64_t parse_count() {
    int64_t value = 0;
    const size_t start = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = value * 10 + (text_[at_] - '0');
      if (value > 1'000'000'000) tree_.budget().check_repetition(value);
    }
    if (at_ == start) fail("expected a count");
    return value;
  }

  ExprId parse_literal(size_t start) {
    std::string bytes;
    while (!take('"')) {
      if (at_ >= text_.size() || text_[at_] == '\n') fail_at(start, "a text without its closing \"");
      append_utf8(bytes, parse_character());
    }
    return tree_.literal(std::move(bytes));
  }

  CodepointSet parse_class(size_t start) {
    const bool negated = take('^');
    std::vector<CodepointSet::Range> ranges;
    while (!take(']')) {
      if (at_ >= text_.size() || text_[at_] == '\n') fail_at(start, "\"[\" without \"]\"");
      const size_t item = at_;
      const uint32_t first = parse_character();
      uint32_t last = first;
      if (next_is('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        ++at_;
        last = parse_character();
      }
      if (first > last) fail_at(item, "the ends of a range are in the wrong order");
      ranges.push_back({first, last});
    }
    const CodepointSet set(std::move(ranges));
    return negated ? set.complement() : set;
  }

  uint32_t parse_character() {
    const size_t start = at_;
    const uint32_t c = read_utf8(text_, at_, "grammar");
    if (c != '\\') return c;
    if (at_ >= text_.size()) fail_at(start, "a backslash at the end");
    switch (text_[at_++]) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case '"':
        return '"';
      case '\\':
        return '\\';
      case '[':
        return '[';
      case ']':
        return ']';
      case '-':
        return '-';
      case '^':
        return '^';
      case 'x':
        return parse_hex(start, 2);
      case 'u':
        return parse_hex(start, 4);
      case 'U':
        return parse_hex(start, 8);
      default:
        fail_at(start, "unknown escape");
    }
  }

  uint32_t parse_hex(size_t start, int digits) {
    uint64_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = at_ < text_.size() ? text_[at_] : ' ';
      const char lower = static_cast<char>(c | 0x20);
      if (c >= '0' && c <= '9')
        value = value * 16 + static_cast<uint64_t>(c - '0');
      else if (lower >= 'a' && lower <= 'f')
        value = value * 16 + static_cast<uint64_t>(lower - 'a' + 10);
      else
        fail_at(start, format("expected {} hexadecimal digits", digits));
      ++at_;
    }
    if (value > kLastCodepoint || (value >= 0xD800 && value <= 0xDFFF))
      fail_at(start, "not a Unicode character");
    return static_cast<uint32_t>(value);
  }

  std::string_view text_;
  GrammarTree& tree_;
  size_t at_ = 0;
  std::map<std::string, NamedRule> rules_;
};

}  // namespace

void parse_ebnf(std::string_view text, GrammarTree& tree) { EbnfParser(text, tree).parse(); }

}  // namespace cheetah
