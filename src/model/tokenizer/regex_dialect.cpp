// SPDX-License-Identifier: MIT
// Oniguruma (Ruby syntax) patterns rewritten for PCRE2. Only what differs is touched: the meaning of \s, \w
// and \h, long property names, \uXXXX, (?m), and a + behind an interval, which is no possessive mark in Ruby.
#include <algorithm>
#include <array>
#include <cctype>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "model/tokenizer/regex.h"

namespace cheetah {
namespace {

constexpr std::string_view kSpaces =
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{"
    "3000}";
constexpr std::string_view kNoSpaces =
    "\\x{0}-\\x{8}\\x{E}-\\x{1F}\\x{21}-\\x{84}\\x{86}-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-"
    "\\x{2027}"
    "\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{D7FF}\\x{E000}-\\x{10FFFF}";
// Oniguruma counts the six Latin-1 superscripts and fractions among word characters.
constexpr std::string_view kWords = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";
constexpr std::string_view kHexDigits = "0-9A-Fa-f";

// Property names Oniguruma knows and PCRE2 10.42 does not.
constexpr std::array<std::pair<std::string_view, std::string_view>, 40> kPropertyNames = {{
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"alpha", "Alphabetic"},
    {"digit", "Nd"},
    {"upper", "Uppercase"},
    {"lower", "Lowercase"},
    {"punct", "P"},
}};

// Sets that need several members in PCRE2: as [:name:] and, unless it stands above, as \p{Name}.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNamedSets = {{
    {"alnum", "\\p{Alphabetic}\\p{Nd}"},
    {"punct", "\\p{P}\\p{S}"},
    {"space", kSpaces},
    {"whitespace", kSpaces},
    {"word", kWords},
    {"xdigit", kHexDigits},
}};

// Scripts. A bare name means script extensions to PCRE2, the script itself to Oniguruma.
constexpr std::array<std::string_view, 34> kScripts = {"han", "hiragana", "katakana", "hangul", "latin",
    "greek", "cyrillic", "arabic", "hebrew", "thai", "bengali", "tamil", "telugu", "kannada", "gujarati",
    "gurmukhi", "oriya", "sinhala", "armenian", "georgian", "malayalam", "khmer", "lao", "myanmar", "tibetan",
    "ethiopic", "mongolian", "bopomofo", "common", "inherited", "cherokee", "syriac", "thaana", "devanagari"};

template <class Table>
const typename Table::value_type* lookup(const Table& table, std::string_view name) {
  for (const auto& entry : table)
    if (entry.first == name) return &entry;
  return nullptr;
}

std::string loose(std::string_view name) {
  std::string plain;
  for (const char c : name)
    if (c != '_' && c != ' ' && c != '-')
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return plain;
}

class Translator {
 public:
  Translator(std::string_view pattern, const std::string& name) : in_(pattern), name_(name) {}

  std::string run() {
    while (at_ < in_.size()) {
      switch (in_[at_]) {
        case '\\':
          start_atom();
          escape(false);
          break;
        case '[':
          start_atom();
          char_class();
          break;
        case '(':
          group();
          break;
        case ')':
          copy();
          if (!open_.empty()) {
            atom_ = open_.back();
            open_.pop_back();
          }
          break;
        case '{':
          interval();
          break;
        case '*':
        case '+':
        case '?':
          copy();
          break;
        default:
          start_atom();
          copy();
      }
    }
    return std::move(out_);
  }

 private:
  void start_atom() { atom_ = out_.size(); }
  void copy() { out_ += in_[at_++]; }
  char peek(size_t ahead) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
  [[noreturn]] void unsupported(std::string_view feature) const {
    throw Error(format("{}: unsupported regex feature \"{}\" in the pattern \"{}\"", name_,
        printable(feature), printable(in_, 200)));
  }
  void set(std::string_view members, bool inside, bool negated = false) {
    if (inside) {
      out_ += members;
      return;
    }
    out_ += negated ? "[^" : "[";
    out_ += members;
    out_ += ']';
  }

  void escape(bool inside) {
    const char kind = peek(1);
    if (kind == '\0') return copy();
    if (kind == 'p' || kind == 'P') return property(inside);
    if (!inside && (kind == 'b' || kind == 'B')) return boundary(kind == 'B');
    if (kind == 'u') return unicode_escape();
    const bool negated = kind == 'S' || kind == 'W' || kind == 'H';
    switch (kind) {
      case 's':
        set(kSpaces, inside);
        break;
      case 'S':
        inside ? set(kNoSpaces, true) : set(kSpaces, false, true);
        break;
      case 'w':
      case 'W':
        if (negated && inside) unsupported("\\W in a class");
        set(kWords, inside, negated);
        break;
      case 'h':
      case 'H':
        if (negated && inside) unsupported("\\H in a class");
        set(kHexDigits, inside, negated);
        break;
      default:
        copy();
        copy();
        return;
    }
    at_ += 2;
  }

  void property(bool inside) {
    const size_t close = peek(2) == '{' ? in_.find('}', at_) : std::string_view::npos;
    if (close == std::string_view::npos) {
      copy();
      return copy();
    }
    bool negated = peek(1) == 'P';
    std::string_view given = in_.substr(at_ + 3, close - at_ - 3);
    at_ = close + 1;
    if (given.starts_with('^')) {
      negated = !negated;
      given.remove_prefix(1);
    }
    const std::string plain = loose(given);
    std::string chosen(given);
    const auto* known = lookup(kPropertyNames, plain);
    if (known) chosen = known->second;
    if (const auto* named = known ? nullptr : lookup(kNamedSets, plain)) {
      if (inside && negated) unsupported("a negated set in a class");
      return set(named->second, inside, negated);
    }
    if (std::find(kScripts.begin(), kScripts.end(), plain) != kScripts.end()) chosen = "sc:" + plain;
    out_ += format("\\{}{{{}}}", negated ? 'P' : 'p', chosen);
  }

  // A word boundary, in terms of Oniguruma's word characters.
  void boundary(bool negated) {
    constexpr std::string_view kEdge = "(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))";
    constexpr std::string_view kNoEdge = "(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))";
    out_ += negated ? format(kNoEdge, kWords) : format(kEdge, kWords);
    at_ += 2;
  }

  // [:name:] with the members Oniguruma gives it.
  void posix_set() {
    const size_t close = in_.find(":]", at_);
    if (close == std::string_view::npos) unsupported("[:");
    const std::string name(in_.substr(at_ + 2, close - at_ - 2));
    at_ = close + 2;
    if (const auto* named = lookup(kNamedSets, name)) return set(named->second, true);
    if (const auto* known = lookup(kPropertyNames, name)) {
      out_ += format("\\p{{{}}}", known->second);
      return;
    }
    out_ += format("[:{}:]", name);
  }

  void unicode_escape() {
    const std::string_view digits = in_.substr(std::min(in_.size(), at_ + 2), 4);
    for (const char c : digits)
      if (!std::isxdigit(static_cast<unsigned char>(c))) unsupported("\\u");
    if (digits.size() < 4) unsupported("\\u");
    out_ += format("\\x{{{}}}", digits);
    at_ += 6;
  }

  void char_class(int depth = 0) {
    const size_t start = out_.size();
    const bool negated = peek(1) == '^';
    copy();
    if (peek(0) == '^') copy();
    if (peek(0) == ']') copy();
    while (at_ < in_.size() && in_[at_] != ']') {
      if (in_[at_] == '\\')
        escape(true);
      else if (in_[at_] == '[' && peek(1) == ':')
        posix_set();
      else if (in_[at_] == '[')
        unsupported("[ inside a class");
      else if (in_[at_] == '&' && peek(1) == '&')
        return negated ? unsupported("&& in a negated class") : intersection(start, depth);
      else
        copy();
    }
    if (at_ < in_.size()) copy();
  }

  // [A&&[B]] : what is ahead must be in B, then it is taken as one of A.
  void intersection(size_t start, int depth) {
    constexpr int kMaxDepth = 8;
    at_ += 2;
    if (peek(0) != '[' || peek(1) == ':' || depth == kMaxDepth) unsupported("&& in a class");
    const std::string left = out_.substr(start) + "]";
    out_.resize(start);
    char_class(depth + 1);
    const std::string right = out_.substr(start);
    out_.resize(start);
    if (peek(0) != ']') unsupported("&& in a class");
    ++at_;
    out_ += format("(?:(?={}){})", right, left);
  }

  void group() {
    open_.push_back(out_.size());
    copy();
    if (peek(0) != '?') return;
    copy();
    // Inline options: Ruby's m is PCRE2's s.
    while (peek(0) == 'i' || peek(0) == 'm' || peek(0) == 'x' || peek(0) == '-') {
      out_ += peek(0) == 'm' ? 's' : peek(0);
      ++at_;
    }
  }

  // X{n,m}+ is a repeated repetition in Ruby; PCRE2 would read the + as "never give back".
  void interval() {
    const size_t close = in_.find('}', at_);
    const bool numbers =
        close != std::string_view::npos && close > at_ + 1 &&
        in_.substr(at_ + 1, close - at_ - 1).find_first_not_of("0123456789,") == std::string_view::npos;
    if (!numbers) {
      start_atom();
      return copy();
    }
    while (at_ <= close) copy();
    if (peek(0) != '+') return;
    out_.insert(atom_, "(?:");
    out_ += ")+";
    ++at_;
  }

  std::string_view in_;
  std::string name_;
  std::string out_;
  size_t at_ = 0;
  size_t atom_ = 0;           // where the last atom starts in out_
  std::vector<size_t> open_;  // where the open groups start
};

}  // namespace

std::string translate_pattern(std::string_view pattern, const std::string& name) {
  return Translator(pattern, name).run();
}

}  // namespace cheetah
