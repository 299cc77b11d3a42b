// SPDX-License-Identifier: MIT
#pragma once
// Finding the places where a text is cut: the common part of pre-tokenizers and of replacing.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace cheetah {

struct Span {
  int64_t begin, end;
  bool matched;
};

// Covers a text with spans that match a pattern and spans between them. Immutable, any thread.
class Splitter {
 public:
  virtual ~Splitter() = default;
  virtual void find(std::string_view text, std::vector<Span>& spans) const = 0;  // text is not empty
};

std::unique_ptr<Splitter> make_regex_splitter(std::string_view pattern, const std::string& name);
std::unique_ptr<Splitter> make_string_splitter(std::string_view text);
std::unique_ptr<Splitter> make_char_splitter(bool (*matches)(char32_t));
// {"String": …} or {"Regex": …}, the way tokenizer.json writes patterns.
std::unique_ptr<Splitter> make_splitter(const Json& pattern, const std::string& name);
// Hand-written scanners for the patterns nearly every model uses; nullptr for any other pattern.
std::unique_ptr<Splitter> make_scanner(std::string_view pattern);
extern const std::string_view kGpt2Pattern;
std::vector<std::string_view> scanned_patterns();  // for the test that holds scanners and PCRE2 equal

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
SplitBehavior parse_behavior(std::string_view text, const std::string& name);
// Turns matches into the spans that remain; spans with matched set are to be dropped afterwards.
void apply_behavior(std::vector<Span>& spans, SplitBehavior behavior);

}  // namespace cheetah
