// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cheetah {

// A pattern as tokenizer files write them (Oniguruma, Ruby syntax), run by PCRE2's JIT under a match limit.
// Immutable after compiling, any thread.
class Regex {
 public:
  struct Match {
    int64_t begin, end;
  };
  // Throws Error, prefixed with `name`, when the pattern is not understood.
  Regex(std::string_view pattern, const std::string& name);
  ~Regex();
  Regex(const Regex&) = delete;
  Regex& operator=(const Regex&) = delete;

  // The first match at or behind `from` in valid UTF-8. Throws Error when the pattern backtracks without end.
  std::optional<Match> find(std::string_view text, int64_t from) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
  std::string pattern_;
  std::string name_;
};

// All matches from left to right; an empty match directly behind another is passed over.
template <class Visit>
void for_each_match(const Regex& regex, std::string_view text, Visit&& visit) {
  int64_t from = 0, last_end = -1;
  while (from <= static_cast<int64_t>(text.size())) {
    const std::optional<Regex::Match> match = regex.find(text, from);
    if (!match) return;
    if (match->begin == match->end && match->end == last_end) {
      do ++from;
      while (from < static_cast<int64_t>(text.size()) &&
             (static_cast<unsigned char>(text[static_cast<size_t>(from)]) & 0xC0) == 0x80);
      continue;
    }
    from = last_end = match->end;
    visit(match->begin, match->end);
  }
}

// The pattern rewritten for PCRE2 where the two dialects differ.
std::string translate_pattern(std::string_view pattern, const std::string& name);

// \w of Rust's regular expressions: Alphabetic, marks, decimal digits, connectors and joiners.
bool is_word_char(char32_t c);

}  // namespace cheetah
