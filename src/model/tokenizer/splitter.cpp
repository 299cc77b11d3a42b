// SPDX-License-Identifier: MIT
#include "model/tokenizer/splitter.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/tokenizer/regex.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {
namespace {

// Puts the stretches between matches into the list.
class SpanWriter {
 public:
  SpanWriter(std::string_view text, std::vector<Span>& spans) : size_(std::ssize(text)), spans_(spans) {}
  void match(int64_t begin, int64_t end) {
    if (done_ != begin) spans_.push_back({done_, begin, false});
    spans_.push_back({begin, end, true});
    done_ = end;
  }
  void finish() {
    if (done_ != size_) spans_.push_back({done_, size_, false});
  }

 private:
  int64_t size_;
  int64_t done_ = 0;
  std::vector<Span>& spans_;
};

class RegexSplitter : public Splitter {
 public:
  RegexSplitter(std::string_view pattern, const std::string& name) : regex_(pattern, name) {}
  void find(std::string_view text, std::vector<Span>& spans) const override {
    SpanWriter writer(text, spans);
    for_each_match(regex_, text, [&](int64_t begin, int64_t end) { writer.match(begin, end); });
    writer.finish();
  }

 private:
  Regex regex_;
};

class StringSplitter : public Splitter {
 public:
  explicit StringSplitter(std::string_view needle) : needle_(needle) {}
  void find(std::string_view text, std::vector<Span>& spans) const override {
    SpanWriter writer(text, spans);
    for (size_t at = text.find(needle_); at != std::string_view::npos;
         at = text.find(needle_, at + needle_.size()))
      writer.match(static_cast<int64_t>(at), static_cast<int64_t>(at + needle_.size()));
    writer.finish();
  }

 private:
  std::string needle_;
};

class CharSplitter : public Splitter {
 public:
  explicit CharSplitter(bool (*matches)(char32_t)) : matches_(matches) {}
  void find(std::string_view text, std::vector<Span>& spans) const override {
    SpanWriter writer(text, spans);
    for (int64_t at = 0; at < std::ssize(text);) {
      const int64_t begin = at;
      if (matches_(next_char(text, at))) writer.match(begin, at);
    }
    writer.finish();
  }

 private:
  bool (*matches_)(char32_t);
};

void join_runs(std::vector<Span>& spans) {
  bool previous = false;
  size_t kept = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span span = spans[i];
    if (span.matched == previous && kept > 0)
      spans[kept - 1].end = span.end;
    else
      spans[kept++] = {span.begin, span.end, false};
    previous = span.matched;
  }
  spans.resize(kept);
}

void join_previous(std::vector<Span>& spans) {
  bool previous = false;
  size_t kept = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    const Span span = spans[i];
    if (span.matched && !previous && kept > 0)
      spans[kept - 1].end = span.end;
    else
      spans[kept++] = {span.begin, span.end, false};
    previous = span.matched;
  }
  spans.resize(kept);
}

void join_next(std::vector<Span>& spans) {
  bool previous = false;
  std::vector<Span> kept;
  for (size_t i = spans.size(); i-- > 0;) {
    const Span span = spans[i];
    if (span.matched && !previous && !kept.empty())
      kept.back().begin = span.begin;
    else
      kept.push_back({span.begin, span.end, false});
    previous = span.matched;
  }
  std::reverse(kept.begin(), kept.end());
  spans = std::move(kept);
}

}  // namespace

std::unique_ptr<Splitter> make_regex_splitter(std::string_view pattern, const std::string& name) {
  if (auto scanner = make_scanner(pattern)) return scanner;
  return std::make_unique<RegexSplitter>(pattern, name);
}

std::unique_ptr<Splitter> make_string_splitter(std::string_view text) {
  if (text.empty()) return std::make_unique<RegexSplitter>("", "empty pattern");
  return std::make_unique<StringSplitter>(text);
}

std::unique_ptr<Splitter> make_char_splitter(bool (*matches)(char32_t)) {
  return std::make_unique<CharSplitter>(matches);
}

std::unique_ptr<Splitter> make_splitter(const Json& pattern, const std::string& name) {
  const JsonFields fields(pattern, name + ": pattern");
  if (fields.has("String")) return make_string_splitter(fields.string("String"));
  return make_regex_splitter(fields.string("Regex"), name);
}

SplitBehavior parse_behavior(std::string_view text, const std::string& name) {
  if (text == "Removed") return SplitBehavior::kRemoved;
  if (text == "Isolated") return SplitBehavior::kIsolated;
  if (text == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (text == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (text == "Contiguous") return SplitBehavior::kContiguous;
  throw Error(
      format("{}: behavior \"{}\" is unknown, expected Removed, Isolated, MergedWithPrevious, "
             "MergedWithNext or Contiguous",
          name, printable(text)));
}

void apply_behavior(std::vector<Span>& spans, SplitBehavior behavior) {
  switch (behavior) {
    case SplitBehavior::kRemoved:
      break;
    case SplitBehavior::kIsolated:
      for (Span& span : spans) span.matched = false;
      break;
    case SplitBehavior::kMergedWithPrevious:
      join_previous(spans);
      break;
    case SplitBehavior::kMergedWithNext:
      join_next(spans);
      break;
    case SplitBehavior::kContiguous:
      join_runs(spans);
      break;
  }
}

}  // namespace cheetah
