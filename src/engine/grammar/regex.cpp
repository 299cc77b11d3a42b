// SPDX-License-Identifier: MIT
#include "engine/grammar/regex.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/json_text.h"
#include "engine/grammar/utf8.h"

namespace cheetah {
namespace {

const CodepointSet& digit_class() {
  static const CodepointSet kSet({{'0', '9'}});
  return kSet;
}
const CodepointSet& word_class() {
  static const CodepointSet kSet({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}});
  return kSet;
}
const CodepointSet& space_class() {
  static const CodepointSet kSet({{'\t', '\r'}, {' ', ' '}});
  return kSet;
}

class RegexParser {
 public:
  RegexParser(std::string_view text, GrammarTree& tree, const RegexOptions& options)
      : text_(text), tree_(tree), options_(options) {}

  ExprId parse() {
    tree_.budget().check_regex(text_);
    const ExprId result = parse_alternatives(0);
    if (!at_end()) fail("\")\" without \"(\"");
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view problem) const { fail_at(at_, problem); }
  [[noreturn]] void fail_at(size_t at, std::string_view problem) const {
    throw Error(format("regex: {} at byte {} of {}", problem, at, printable(text_)));
  }
  bool at_end() const { return at_ >= text_.size(); }
  bool next_is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool take(char c) {
    if (!next_is(c)) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }

  ExprId one_of(const CodepointSet& set) {
    return options_.in_json_string ? json_characters(tree_, set) : tree_.characters(set);
  }
  ExprId anything() { return tree_.repeat(one_of(CodepointSet::all()), 0, kUnbounded); }

  ExprId parse_alternatives(int depth);
  ExprId parse_branch(int depth);
  ExprId parse_quantified(int depth);
  ExprId parse_atom(int depth);
  ExprId parse_group(int depth);
  ExprId apply_quantifiers(ExprId atom);
  bool parse_counts(int64_t& min, int64_t& max);
  int64_t parse_count();
  CodepointSet parse_class();
  CodepointSet parse_class_item(bool& single);
  CodepointSet parse_escape(bool in_class, bool& single);
  CodepointSet parse_unicode_class(bool negated);
  uint32_t parse_hex(int digits);
  uint32_t parse_braced_hex();

  std::string_view text_;
  GrammarTree& tree_;
  RegexOptions options_;
  size_t at_ = 0;
};

ExprId RegexParser::parse_alternatives(int depth) {
  tree_.budget().check_nesting(depth);
  std::vector<ExprId> branches = {parse_branch(depth)};
  while (take('|')) branches.push_back(parse_branch(depth));
  return tree_.choice(std::move(branches));
}

// Anchors are taken at the ends of a branch of the outermost level; there alone their meaning is a matter of
// what stands before and after the whole regex.
ExprId RegexParser::parse_branch(int depth) {
  std::vector<ExprId> parts;
  const bool anchored_start = depth == 0 && (take('^') || take("\\A"));
  bool anchored_end = false;
  if (depth == 0 && options_.search && !anchored_start) parts.push_back(anything());
  while (!at_end() && !next_is('|') && !next_is(')')) {
    const size_t start = at_;
    if (take('$') || take("\\z") || take("\\Z")) {
      anchored_end = true;
      if (depth > 0 || !(at_end() || next_is('|')))
        fail_at(start, "unsupported regex feature: an anchor that is not at the end of the regex");
      break;
    }
    if (next_is('^')) fail("unsupported regex feature: an anchor that is not at the start of the regex");
    parts.push_back(parse_quantified(depth));
  }
  if (depth == 0 && options_.search && !anchored_end) parts.push_back(anything());
  return parts.empty() ? tree_.empty() : tree_.sequence(std::move(parts));
}

ExprId RegexParser::parse_quantified(int depth) { return apply_quantifiers(parse_atom(depth)); }

ExprId RegexParser::apply_quantifiers(ExprId atom) {
  int64_t min = 0, max = 0;
  const size_t start = at_;
  if (take('*'))
    min = 0, max = kUnbounded;
  else if (take('+'))
    min = 1, max = kUnbounded;
  else if (take('?'))
    min = 0, max = 1;
  else if (!parse_counts(min, max))
    return atom;
  if (max != kUnbounded && min > max) fail_at(start, "the counts of a repetition are in the wrong order");
  tree_.budget().check_repetition(std::max(min, max));
  take('?');  // a lazy quantifier matches the same texts
  if (next_is('+')) fail("unsupported regex feature: a possessive quantifier");
  if (next_is('*') || next_is('?')) fail("a quantifier after a quantifier");
  return tree_.repeat(atom, min, max);
}

// {m}, {m,}, {m,n} or {,n}; anything else after { is an error, as most writers mean a count.
bool RegexParser::parse_counts(int64_t& min, int64_t& max) {
  if (!take('{')) return false;
  const bool open_start = next_is(',');
  min = open_start ? 0 : parse_count();
  max = min;
  if (take(',')) max = next_is('}') ? kUnbounded : parse_count();
  if (!take('}')) fail("expected \"}\" after the counts of a repetition");
  return true;
}

int64_t RegexParser::parse_count() {
  int64_t value = 0;
  const size_t start = at_;
  for (; !at_end() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
    value = value * 10 + (text_[at_] - '0');
    if (value > 1'000'000'000) tree_.budget().check_repetition(value);
  }
  if (at_ == start) fail("expected a count (a literal \"{\" is written \"\\{\")");
  return value;
}

ExprId RegexParser::parse_atom(int depth) {
  const char c = text_[at_];
  if (c == '(') return parse_group(depth);
  if (c == '[') return one_of(parse_class());
  if (c == '*' || c == '+' || c == '?' || c == '{') fail("nothing to repeat");
  if (take('.')) {
    static const CodepointSet kNotNewline = CodepointSet({{'\n', '\n'}}).complement();
    return one_of(kNotNewline);
  }
  bool single = true;
  if (c == '\\') return one_of(parse_escape(false, single));
  const uint32_t codepoint = read_utf8(text_, at_, "regex");
  return one_of(CodepointSet({{codepoint, codepoint}}));
}

ExprId RegexParser::parse_group(int depth) {
  const size_t start = at_++;
  if (take('?')) {
    if (take("=") || take("!") || take("<=") || take("<!"))
      fail_at(start, "unsupported regex feature: look-around");
    if (take(">")) fail_at(start, "unsupported regex feature: an atomic group");
    if (take("P<") || take("<")) {
      while (!at_end() && !next_is('>')) ++at_;
      if (!take('>')) fail_at(start, "a group name without \">\"");
    } else if (!take(":")) {
      fail_at(start, "unsupported regex feature: this kind of group");
    }
  }
  const ExprId body = parse_alternatives(depth + 1);
  if (!take(')')) fail_at(start, "\"(\" without \")\"");
  return body;
}

CodepointSet RegexParser::parse_class() {
  const size_t start = at_++;
  const bool negated = take('^');
  CodepointSet set;
  for (bool first = true; first || !next_is(']'); first = false) {
    if (at_end()) fail_at(start, "\"[\" without \"]\"");
    bool single = true;
    const size_t item_at = at_;
    CodepointSet item = parse_class_item(single);
    if (single && next_is('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
      ++at_;
      bool last_single = true;
      const CodepointSet last = parse_class_item(last_single);
      if (!last_single) fail_at(item_at, "a class as the end of a range");
      const uint32_t low = item.empty() ? 0 : item.ranges()[0].first;
      const uint32_t high = last.empty() ? 0 : last.ranges()[0].first;
      if (low > high) fail_at(item_at, "the ends of a range are in the wrong order");
      item = CodepointSet({{low, high}});
    }
    set = set.united(item);
    tree_.budget().step(static_cast<int64_t>(set.ranges().size()));
  }
  ++at_;
  return negated ? set.complement() : set;
}

CodepointSet RegexParser::parse_class_item(bool& single) {
  if (at_end()) fail("a class without \"]\"");
  if (next_is('\\')) return parse_escape(true, single);
  if (take("[:")) fail_at(at_ - 2, "unsupported regex feature: a POSIX class");
  const uint32_t codepoint = read_utf8(text_, at_, "regex");
  return CodepointSet({{codepoint, codepoint}});
}

CodepointSet RegexParser::parse_escape(bool in_class, bool& single) {
  const size_t start = at_++;
  if (at_end()) fail_at(start, "a backslash at the end");
  const char c = text_[at_];
  if (static_cast<unsigned char>(c) >= 0x80) fail_at(start, "unknown escape");
  ++at_;
  const auto is = [](uint32_t codepoint) { return CodepointSet({{codepoint, codepoint}}); };
  const auto is_class = [&](const CodepointSet& set) { return single = false, set; };
  switch (c) {
    case 'd':
      return is_class(digit_class());
    case 'D':
      return is_class(digit_class().complement());
    case 'w':
      return is_class(word_class());
    case 'W':
      return is_class(word_class().complement());
    case 's':
      return is_class(space_class());
    case 'S':
      return is_class(space_class().complement());
    case 'p':
      return is_class(parse_unicode_class(false));
    case 'P':
      return is_class(parse_unicode_class(true));
    case 'n':
      return is('\n');
    case 'r':
      return is('\r');
    case 't':
      return is('\t');
    case 'f':
      return is('\f');
    case 'v':
      return is('\v');
    case '0':
      return is(0);
    case 'x':
      return is(next_is('{') ? parse_braced_hex() : parse_hex(2));
    case 'u':
      return is(next_is('{') ? parse_braced_hex() : parse_hex(4));
    case 'U':
      return is(parse_hex(8));
    case 'b':
      if (in_class) return is('\b');
      fail_at(start, "unsupported regex feature: the word boundary \"\\b\"");
    case 'B':
      fail_at(start, "unsupported regex feature: the word boundary \"\\B\"");
    default:
      break;
  }
  if (c >= '1' && c <= '9')
    fail_at(start, format("unsupported regex feature: the back-reference \"\\{}\"", c));
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
    fail_at(start, format("unsupported regex feature: the escape \"\\{}\"", c));
  return is(static_cast<uint32_t>(c));
}

CodepointSet RegexParser::parse_unicode_class(bool negated) {
  const size_t start = at_;
  std::string name;
  if (take('{')) {
    while (!at_end() && !next_is('}')) name.push_back(text_[at_++]);
    if (!take('}')) fail_at(start, "a Unicode class without \"}\"");
  } else if (!at_end()) {
    name.push_back(text_[at_++]);
  }
  tree_.budget().step(kLastCodepoint / 8);
  try {
    const CodepointSet set = unicode_class(name);
    return negated ? set.complement() : set;
  } catch (const Error& error) {
    fail_at(start, printable(error.what(), 160));
  }
}

uint32_t RegexParser::parse_hex(int digits) {
  uint32_t value = 0;
  for (int i = 0; i < digits; ++i) {
    const char c = at_end() ? ' ' : text_[at_];
    const char lower = static_cast<char>(c | 0x20);
    if (c >= '0' && c <= '9')
      value = value * 16 + static_cast<uint32_t>(c - '0');
    else if (lower >= 'a' && lower <= 'f')
      value = value * 16 + static_cast<uint32_t>(lower - 'a' + 10);
    else
      fail(format("expected {} hexadecimal digits", digits));
    ++at_;
  }
  if (value > kLastCodepoint || (value >= 0xD800 && value <= 0xDFFF)) fail("not a Unicode character");
  return value;
}

uint32_t RegexParser::parse_braced_hex() {
  ++at_;
  size_t length = 0;
  while (at_ + length < text_.size() && text_[at_ + length] != '}' && length < 7) ++length;
  const uint32_t value = parse_hex(static_cast<int>(length));
  if (length == 0 || !take('}')) fail("expected 1 to 6 hexadecimal digits and \"}\"");
  return value;
}

}  // namespace

ExprId parse_regex(std::string_view regex, GrammarTree& tree, const RegexOptions& options) {
  return RegexParser(regex, tree, options).parse();
}

}  // namespace cheetah
