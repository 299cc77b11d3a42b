// SPDX-License-Identifier: MIT
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {
namespace {

struct Range {
  char32_t first, last;
};
// The blocks BERT treats as Chinese characters, one word each.
constexpr Range kChinese[] = {{0x4E00, 0x9FFF}, {0x3400, 0x4DBF}, {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
    {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF}, {0x2F800, 0x2FA1F}};

bool is_chinese(char32_t c) {
  for (const Range& range : kChinese)
    if (c >= range.first && c <= range.last) return true;
  return false;
}

bool is_dropped(char32_t c) {
  if (c == 0 || c == kReplacement) return true;
  if (c == '\t' || c == '\n' || c == '\r') return false;
  return (char_class(c) & kOther) != 0;
}

class BertNormalizer : public Normalizer {
 public:
  BertNormalizer(bool clean, bool chinese, bool strip, bool lower)
      : clean_(clean), chinese_(chinese), strip_(strip), lower_(lower) {}

  void apply(NormalText& text) const override {
    std::string out = spaced(text);
    if (strip_) out = without_accents(out);
    if (lower_) out = lowered(out);
    text.text = std::move(out);
  }

 private:
  std::string spaced(NormalText& text) const {
    std::string out;
    for (int64_t at = 0; at < std::ssize(text.text);) {
      const char32_t c = next_char(text.text, at);
      if (clean_ && is_dropped(c)) {
        if (out.empty()) text.at_start = false;
        continue;
      }
      const bool alone = chinese_ && is_chinese(c);
      if (alone) out += ' ';
      append_utf8(out, clean_ && is_space(c) ? U' ' : c);
      if (alone) out += ' ';
    }
    return out;
  }
  static std::string without_accents(std::string_view text) {
    const std::string decomposed = to_form(text, UnicodeForm::kNfd);
    std::string out;
    for (int64_t at = 0; at < std::ssize(decomposed);) {
      const char32_t c = next_char(decomposed, at);
      if (!(char_class(c) & kNonspacing)) append_utf8(out, c);
    }
    return out;
  }
  static std::string lowered(std::string_view text) {
    std::string out;
    for (int64_t at = 0; at < std::ssize(text);) append_lower(out, next_char(text, at));
    return out;
  }

  bool clean_, chinese_, strip_, lower_;
};

}  // namespace

std::unique_ptr<Normalizer> make_bert_normalizer(const JsonFields& fields) {
  const bool lower = fields.boolean_or("lowercase", true);
  return std::make_unique<BertNormalizer>(fields.boolean_or("clean_text", true),
      fields.boolean_or("handle_chinese_chars", true), fields.boolean_or("strip_accents", lower), lower);
}

}  // namespace cheetah
