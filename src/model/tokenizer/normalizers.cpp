// SPDX-License-Identifier: MIT
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/splitter.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxSteps = 256;
constexpr int kMaxNesting = 16;

bool is_ascii(char byte) { return static_cast<unsigned char>(byte) < 0x80; }

// Below U+0300 (lead bytes up to 0xCB) nothing composes and everything is composed already.
bool needs_composing(std::string_view text) {
  return std::any_of(
      text.begin(), text.end(), [](char byte) { return static_cast<unsigned char>(byte) >= 0xCC; });
}

// ASCII never changes and never joins what stands before it, so only the other stretches are normalized, each
// with the one ASCII character before it, which a combining mark may change.
class UnicodeNormalizer : public Normalizer {
 public:
  explicit UnicodeNormalizer(UnicodeForm form) : form_(form) {}
  void apply(NormalText& text) const override {
    const std::string_view in = text.text;
    const auto first = std::find_if_not(in.begin(), in.end(), is_ascii);
    if (first == in.end() || (form_ == UnicodeForm::kNfc && !needs_composing(in))) return;
    std::string out;
    out.reserve(in.size());
    auto done = in.begin();
    for (auto at = first; at != in.end();) {
      const auto begin = at == in.begin() ? at : at - 1;
      const auto end = std::find_if(at, in.end(), is_ascii);
      out.append(done, begin);
      const std::string_view part(begin, end);
      if (form_ == UnicodeForm::kNfc && !needs_composing(part))
        out += part;
      else
        out += to_form(part, form_);
      done = end;
      at = std::find_if_not(end, in.end(), is_ascii);
    }
    out.append(done, in.end());
    text.text = std::move(out);
  }

 private:
  UnicodeForm form_;
};

// Keeps, drops or rewrites one character at a time.
class CharNormalizer : public Normalizer {
 public:
  using Rewrite = void (*)(char32_t, std::string&);
  explicit CharNormalizer(Rewrite rewrite) : rewrite_(rewrite) {}
  void apply(NormalText& text) const override {
    std::string out;
    out.reserve(text.text.size());
    bool any = false;
    for (int64_t at = 0; at < std::ssize(text.text);) {
      rewrite_(next_char(text.text, at), out);
      if (!any && out.empty()) text.at_start = false;
      any = any || !out.empty();
    }
    text.text = std::move(out);
  }

 private:
  Rewrite rewrite_;
};

void drop_marks(char32_t c, std::string& out) {
  if (!(char_class(c) & kMark)) append_utf8(out, c);
}

// The clean-up of machine-translation corpora that SentencePiece calls nmt.
void clean_nmt(char32_t c, std::string& out) {
  const bool dropped = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
                       c == 0x8F || c == 0x9F;
  if (dropped) return;
  const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  append_utf8(out, space ? U' ' : c);
}

void spell_bytes(char32_t c, std::string& out) {
  std::string bytes;
  append_utf8(bytes, c);
  append_byte_chars(out, bytes);
}

class StripNormalizer : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  void apply(NormalText& text) const override {
    const std::u32string chars = to_utf32(text.text);
    size_t begin = 0, end = chars.size();
    while (left_ && begin < end && is_space(chars[begin])) ++begin;
    while (right_ && end > begin && is_space(chars[end - 1])) --end;
    if (begin > 0) text.at_start = false;
    text.text = to_utf8(std::u32string_view(chars).substr(begin, end - begin));
  }

 private:
  bool left_, right_;
};

class ReplaceNormalizer : public Normalizer {
 public:
  ReplaceNormalizer(std::unique_ptr<Splitter> pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(NormalText& text) const override {
    if (text.text.empty()) return;
    std::vector<Span> spans;
    pattern_->find(text.text, spans);
    std::string out;
    out.reserve(text.text.size());
    for (const Span& span : spans) {
      if (!span.matched)
        out.append(text.text, static_cast<size_t>(span.begin), static_cast<size_t>(span.end - span.begin));
      else
        out += content_;
      if (out.empty()) text.at_start = false;
    }
    text.text = std::move(out);
  }

 private:
  std::unique_ptr<Splitter> pattern_;
  std::string content_;
};

class Affix : public Normalizer {
 public:
  Affix(std::string before, std::string after) : before_(std::move(before)), after_(std::move(after)) {}
  void apply(NormalText& text) const override {
    if (!text.text.empty()) text.text = before_ + text.text + after_;
  }

 private:
  std::string before_, after_;
};

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}
  void apply(NormalText& text) const override {
    for (const auto& step : steps_) step->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

std::unique_ptr<Normalizer> make_replace(const JsonFields& fields) {
  const Json* pattern = fields.find("pattern");
  if (!pattern) throw Error(format("{}: a Replace needs a \"pattern\"", fields.what()));
  return std::make_unique<ReplaceNormalizer>(
      make_splitter(*pattern, fields.what()), fields.string("content"));
}

std::unique_ptr<Normalizer> make_one(
    const std::string& type, const JsonFields& fields, const std::string& name) {
  if (type == "NFC") return std::make_unique<UnicodeNormalizer>(UnicodeForm::kNfc);
  if (type == "NFD") return std::make_unique<UnicodeNormalizer>(UnicodeForm::kNfd);
  if (type == "NFKC") return std::make_unique<UnicodeNormalizer>(UnicodeForm::kNfkc);
  if (type == "NFKD") return std::make_unique<UnicodeNormalizer>(UnicodeForm::kNfkd);
  if (type == "Lowercase")
    return std::make_unique<CharNormalizer>([](char32_t c, std::string& out) { append_lower(out, c); });
  if (type == "StripAccents") return std::make_unique<CharNormalizer>(drop_marks);
  if (type == "Nmt") return std::make_unique<CharNormalizer>(clean_nmt);
  if (type == "ByteLevel") return std::make_unique<CharNormalizer>(spell_bytes);
  if (type == "Strip")
    return std::make_unique<StripNormalizer>(
        fields.boolean_or("strip_left", true), fields.boolean_or("strip_right", true));
  if (type == "Replace") return make_replace(fields);
  if (type == "Prepend") return std::make_unique<Affix>(fields.string("prepend"), "");
  if (type == "Append") return std::make_unique<Affix>("", fields.string("append"));
  if (type == "BertNormalizer") return make_bert_normalizer(fields);
  if (type == "Precompiled") return make_precompiled(fields.string_or("precompiled_charsmap", ""), name);
  throw Error(format("{}: normalizer type \"{}\" is not supported", fields.what(), printable(type)));
}

std::unique_ptr<Normalizer> make_nested(
    const Json& description, int depth, int64_t& num_steps, const std::string& name) {
  if (++num_steps > kMaxSteps || depth > kMaxNesting)
    throw Error(format("{}: more than {} normalizers or {} levels of them", name, kMaxSteps, kMaxNesting));
  const JsonFields fields(description, name + ": normalizer");
  const std::string type = fields.string("type");
  if (type != "Sequence") return make_one(type, fields, name);
  const Json* list = fields.find("normalizers");
  if (!list || !list->is_array())
    throw Error(format("{}: a Sequence needs the list \"normalizers\"", fields.what()));
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (const Json& step : *list) steps.push_back(make_nested(step, depth + 1, num_steps, name));
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

}  // namespace

std::string to_form(std::string_view valid_utf8, UnicodeForm form) {
  int options = UTF8PROC_STABLE;
  options |= form == UnicodeForm::kNfc || form == UnicodeForm::kNfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == UnicodeForm::kNfkc || form == UnicodeForm::kNfkd) options |= UTF8PROC_COMPAT;
  utf8proc_uint8_t* mapped = nullptr;
  const utf8proc_ssize_t length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(valid_utf8.data()),
      static_cast<utf8proc_ssize_t>(valid_utf8.size()), &mapped, static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
  if (length < 0) throw Error(format("tokenizer: Unicode normalization failed: {}", utf8proc_errmsg(length)));
  return std::string(reinterpret_cast<const char*>(mapped), static_cast<size_t>(length));
}

std::unique_ptr<Normalizer> make_charsmap_normalizer(
    std::string_view table, const Json& then, const std::string& name) {
  std::vector<std::unique_ptr<Normalizer>> steps;
  steps.push_back(make_precompiled_table(table, name));
  for (const Json& step : then) steps.push_back(make_normalizer(step, name));
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

std::unique_ptr<Normalizer> make_normalizer(const Json& description, const std::string& name) {
  int64_t num_steps = 0;
  return make_nested(description, 0, num_steps, name);
}

}  // namespace cheetah
