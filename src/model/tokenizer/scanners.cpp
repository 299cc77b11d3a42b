// SPDX-License-Identifier: MIT
// Hand-written scanners: the same cuts as the patterns below, an order of magnitude faster than matching
// them.
#include <algorithm>

#include "model/tokenizer/splitter.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {

const std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

// llama 3 (three digits at a time) and qwen 2 (one).
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr uint8_t kWordBits = kLetter | kNumber | kSpace;

// Reads characters with their class; behind the text, class 0 and width 0.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text), classes_(char_classes()) {}
  struct Char {
    char32_t value;
    int64_t width;
    uint8_t bits;
  };
  int64_t size() const { return std::ssize(text_); }
  Char at(int64_t position) const {
    if (position >= size()) return {0, 0, 0};
    const auto lead = static_cast<unsigned char>(text_[static_cast<size_t>(position)]);
    if (lead < 0x80) return {lead, 1, classes_[lead]};
    int64_t end = position;
    const char32_t c = next_char(text_, end);
    return {c, end - position, classes_[c]};
  }
  // The end of the run of characters whose class has (or, inverted, lacks) all the given bits.
  int64_t run_of(uint8_t bits, int64_t position) const {
    for (Char c = at(position); c.bits & bits; c = at(position)) position += c.width;
    return position;
  }
  int64_t run_without(uint8_t bits, int64_t position) const {
    for (Char c = at(position); c.width > 0 && !(c.bits & bits); c = at(position)) position += c.width;
    return position;
  }

 private:
  std::string_view text_;
  const uint8_t* classes_;
};

// 's 't 'm 'd 're 've 'll at an apostrophe: its length, or 0.
int64_t contraction(const Reader& reader, int64_t position, bool any_case) {
  const auto letter = [&](int64_t at) -> char32_t {
    const char32_t c = reader.at(at).value;
    if (!any_case) return c;
    if (c == 0x17F) return 's';  // long s is an s when case does not matter
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
  };
  const char32_t first = letter(position + 1);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 1 + reader.at(position + 1).width;
  const char32_t second = first == 0 ? 0 : letter(position + 2);
  const bool pair =
      (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
  return pair ? 3 : 0;
}

// \s+(?!\S)|\s+ : all white space, but its last character stays with the word behind it.
int64_t spaces_end(const Reader& reader, int64_t position) {
  int64_t end = position, last = position;
  for (Reader::Char c = reader.at(end); c.bits & kSpace; c = reader.at(end)) {
    last = end;
    end += c.width;
  }
  if (end == reader.size() || last == position) return end;
  return last;
}

int64_t gpt2_end(const Reader& reader, int64_t position) {
  const Reader::Char first = reader.at(position);
  if (first.value == '\'')
    if (const int64_t length = contraction(reader, position, false)) return position + length;
  const int64_t start = first.value == ' ' ? position + 1 : position;
  const Reader::Char next = reader.at(start);
  if (next.bits & kLetter) return reader.run_of(kLetter, start);
  if (next.bits & kNumber) return reader.run_of(kNumber, start);
  if (next.width > 0 && !(next.bits & kSpace)) return reader.run_without(kWordBits, start);
  return spaces_end(reader, position);
}

bool is_newline(char32_t c) { return c == '\r' || c == '\n'; }

// \s*[\r\n]+ : up to the last line break of the white space, or `position` when there is none.
int64_t line_breaks_end(const Reader& reader, int64_t position) {
  int64_t end = position;
  for (int64_t at = position;;) {
    const Reader::Char c = reader.at(at);
    if (!(c.bits & kSpace)) return end;
    at += c.width;
    if (is_newline(c.value)) end = at;
  }
}

int64_t llama3_end(const Reader& reader, int64_t position, int max_digits) {
  const Reader::Char first = reader.at(position);
  if (first.value == '\'')
    if (const int64_t length = contraction(reader, position, true)) return position + length;
  if (first.bits & kLetter) return reader.run_of(kLetter, position + first.width);
  const Reader::Char second = reader.at(position + first.width);
  if (first.bits & kNumber) {
    int64_t end = position;
    Reader::Char c = first;
    for (int i = 0; i < max_digits && c.bits & kNumber; ++i, c = reader.at(end)) end += c.width;
    return end;
  }
  if (!is_newline(first.value) && second.bits & kLetter)
    return reader.run_of(kLetter, position + first.width);
  const bool symbol = !(first.bits & kSpace);
  if (symbol || (first.value == ' ' && second.width > 0 && !(second.bits & kWordBits))) {
    int64_t end = reader.run_without(kWordBits, symbol ? position : position + 1);
    while (is_newline(reader.at(end).value)) ++end;
    return end;
  }
  const int64_t breaks = line_breaks_end(reader, position);
  return breaks > position ? breaks : spaces_end(reader, position);
}

template <class End>
class Scanner : public Splitter {
 public:
  explicit Scanner(End end) : end_(end) {}
  void find(std::string_view text, std::vector<Span>& spans) const override {
    const Reader reader(text);
    for (int64_t at = 0; at < reader.size();) {
      const int64_t end = end_(reader, at);
      spans.push_back({at, end, true});
      at = end;
    }
  }

 private:
  End end_;
};

template <class End>
std::unique_ptr<Splitter> scan_with(End end) {
  return std::make_unique<Scanner<End>>(end);
}

}  // namespace

std::vector<std::string_view> scanned_patterns() { return {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern}; }

std::unique_ptr<Splitter> make_scanner(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return scan_with([](const Reader& r, int64_t at) { return gpt2_end(r, at); });
  if (pattern == kLlama3Pattern)
    return scan_with([](const Reader& r, int64_t at) { return llama3_end(r, at, 3); });
  if (pattern == kQwen2Pattern)
    return scan_with([](const Reader& r, int64_t at) { return llama3_end(r, at, 1); });
  return nullptr;
}

}  // namespace cheetah
