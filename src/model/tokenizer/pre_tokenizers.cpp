// SPDX-License-Identifier: MIT
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxSteps = 256;
// \w+|[^\w\s]+ as Rust's regular expressions read it: joiners are word characters.
constexpr std::string_view kWordsAndSymbols =
    R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}]+|[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200C}\x{200D}\s]+)";
constexpr int kMaxNesting = 16;

// Cuts every piece with one splitter.
class Split : public PreTokenizer {
 public:
  Split(std::unique_ptr<Splitter> splitter, SplitBehavior behavior, bool invert)
      : splitter_(std::move(splitter)), behavior_(behavior), invert_(invert) {}

  void apply(PieceList& list) const override {
    std::vector<PieceList::Piece> cut;
    std::vector<Span> spans;
    for (const PieceList::Piece& piece : list.pieces) {
      spans.clear();
      splitter_->find(list.view(piece), spans);
      if (invert_)
        for (Span& span : spans) span.matched = !span.matched;
      apply_behavior(spans, behavior_);
      for (const Span& span : spans)
        if (!span.matched && span.begin < span.end)
          cut.push_back(
              {piece.begin + span.begin, piece.begin + span.end, piece.at_start && span.begin == 0});
    }
    list.pieces = std::move(cut);
  }

 private:
  std::unique_ptr<Splitter> splitter_;
  SplitBehavior behavior_;
  bool invert_;
};

// Rewrites the text of every piece: rewrite(piece text, at_start, out) appends the new text.
template <class Rewrite>
void rewrite_pieces(PieceList& list, Rewrite&& rewrite) {
  std::string text;
  text.reserve(list.text.size() + list.pieces.size());
  for (PieceList::Piece& piece : list.pieces) {
    const auto begin = std::ssize(text);
    rewrite(list.view(piece), piece.at_start, text);
    piece.begin = begin;
    piece.end = std::ssize(text);
  }
  list.text = std::move(text);
}

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex, bool raw_bytes)
      : add_prefix_space_(add_prefix_space), raw_bytes_(raw_bytes) {
    if (use_regex)
      split_ = std::make_unique<Split>(
          make_regex_splitter(kGpt2Pattern, "ByteLevel"), SplitBehavior::kIsolated, false);
  }
  void apply(PieceList& list) const override {
    if (add_prefix_space_)
      rewrite_pieces(list, [](std::string_view piece, bool, std::string& out) {
        if (!piece.starts_with(' ')) out += ' ';
        out += piece;
      });
    if (split_) split_->apply(list);
    if (!raw_bytes_)
      rewrite_pieces(
          list, [](std::string_view piece, bool, std::string& out) { append_byte_chars(out, piece); });
  }

 private:
  bool add_prefix_space_, raw_bytes_;
  std::unique_ptr<Split> split_;
};

class Metaspace : public PreTokenizer {
 public:
  enum class Prepend { kAlways, kFirst, kNever };
  Metaspace(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend) {
    if (split)
      split_ =
          std::make_unique<Split>(make_string_splitter(replacement_), SplitBehavior::kMergedWithNext, false);
  }
  void apply(PieceList& list) const override {
    rewrite_pieces(list, [&](std::string_view piece, bool at_start, std::string& out) {
      const bool wanted = prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && at_start);
      if (wanted && !piece.starts_with(' ') && !piece.starts_with(replacement_)) out += replacement_;
      for (const char c : piece) {
        if (c == ' ')
          out += replacement_;
        else
          out += c;
      }
    });
    if (split_) split_->apply(list);
  }

 private:
  std::string replacement_;
  Prepend prepend_;
  std::unique_ptr<Split> split_;
};

class Sequence : public PreTokenizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<PreTokenizer>> steps) : steps_(std::move(steps)) {}
  void apply(PieceList& list) const override {
    for (const auto& step : steps_) step->apply(list);
  }

 private:
  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

bool is_number(char32_t c) { return (char_class(c) & kNumber) != 0; }
bool is_punctuation(char32_t c) { return (char_class(c) & kPunctuation) != 0; }

std::unique_ptr<PreTokenizer> split_with(
    std::unique_ptr<Splitter> splitter, SplitBehavior behavior, bool invert = false) {
  return std::make_unique<Split>(std::move(splitter), behavior, invert);
}

template <class... Steps>
std::unique_ptr<PreTokenizer> in_sequence(Steps... steps) {
  std::vector<std::unique_ptr<PreTokenizer>> list;
  (list.push_back(std::move(steps)), ...);
  return std::make_unique<Sequence>(std::move(list));
}

std::unique_ptr<PreTokenizer> make_metaspace(const JsonFields& fields) {
  const std::string replacement = fields.string_or("replacement", "\xE2\x96\x81");
  if (replacement.empty() ||
      utf8_length(static_cast<unsigned char>(replacement[0])) != std::ssize(replacement))
    throw Error(format("{}: replacement \"{}\" is not one character", fields.what(), printable(replacement)));
  const std::string scheme = fields.string_or("prepend_scheme", "always");
  Metaspace::Prepend prepend = Metaspace::Prepend::kAlways;
  if (scheme == "first")
    prepend = Metaspace::Prepend::kFirst;
  else if (scheme == "never" || !fields.boolean_or("add_prefix_space", true))
    prepend = Metaspace::Prepend::kNever;
  else if (scheme != "always")
    throw Error(format("{}: prepend_scheme \"{}\" is unknown, expected always, first or never", fields.what(),
        printable(scheme)));
  return std::make_unique<Metaspace>(replacement, prepend, fields.boolean_or("split", true));
}

struct Factory {
  bool raw_bytes;
  int64_t num_steps = 0;

  std::unique_ptr<PreTokenizer> make(
      const Json& description, bool is_last, int depth, const std::string& name) {
    if (++num_steps > kMaxSteps || depth > kMaxNesting)
      throw Error(
          format("{}: more than {} pre-tokenizers or {} levels of them", name, kMaxSteps, kMaxNesting));
    const JsonFields fields(description, name + ": pre_tokenizer");
    const std::string type = fields.string("type");
    if (type == "Sequence") return sequence(fields, is_last, depth, name);
    if (type == "ByteLevel")
      return std::make_unique<ByteLevel>(fields.boolean_or("add_prefix_space", true),
          fields.boolean_or("use_regex", true), raw_bytes && is_last);
    if (type == "Split") return split(fields);
    if (type == "Metaspace") return make_metaspace(fields);
    return make_simple(type, fields);
  }

  std::unique_ptr<PreTokenizer> sequence(
      const JsonFields& fields, bool is_last, int depth, const std::string& name) {
    const Json* list = fields.find("pretokenizers");
    if (!list || !list->is_array())
      throw Error(format("{}: a Sequence needs the list \"pretokenizers\"", fields.what()));
    std::vector<std::unique_ptr<PreTokenizer>> steps;
    for (const Json& step : *list)
      steps.push_back(make(step, is_last && &step == &list->back(), depth + 1, name));
    return std::make_unique<Sequence>(std::move(steps));
  }

  static std::unique_ptr<PreTokenizer> split(const JsonFields& fields) {
    const Json* pattern = fields.find("pattern");
    if (!pattern) throw Error(format("{}: a Split needs a \"pattern\"", fields.what()));
    return split_with(make_splitter(*pattern, fields.what()),
        parse_behavior(fields.string("behavior"), fields.what()), fields.boolean_or("invert", false));
  }

  static std::unique_ptr<PreTokenizer> make_simple(const std::string& type, const JsonFields& fields) {
    using enum SplitBehavior;
    if (type == "Whitespace")
      return split_with(make_regex_splitter(kWordsAndSymbols, fields.what()), kRemoved, true);
    if (type == "WhitespaceSplit") return split_with(make_char_splitter(is_space), kRemoved);
    if (type == "Punctuation")
      return split_with(make_char_splitter(is_punctuation),
          parse_behavior(fields.string_or("behavior", "Isolated"), fields.what()));
    if (type == "Digits")
      return split_with(make_char_splitter(is_number),
          fields.boolean_or("individual_digits", false) ? kIsolated : kContiguous);
    if (type == "BertPreTokenizer")
      return in_sequence(split_with(make_char_splitter(is_space), kRemoved),
          split_with(make_char_splitter(is_punctuation), kIsolated));
    if (type == "CharDelimiterSplit")
      return split_with(make_string_splitter(fields.string("delimiter")), kRemoved);
    throw Error(format("{}: pre-tokenizer type \"{}\" is not supported", fields.what(), printable(type)));
  }
};

}  // namespace

std::unique_ptr<PreTokenizer> make_pre_tokenizer(
    const Json& description, bool raw_bytes, const std::string& name) {
  return Factory{raw_bytes}.make(description, true, 0, name);
}

bool ends_byte_level(const Json& description) {
  const Json* step = &description;
  while (step->is_object() && step->value("type", Json()) == "Sequence") {
    const auto list = step->find("pretokenizers");
    if (list == step->end() || !list->is_array() || list->empty()) return false;
    step = &list->back();
  }
  return step->is_object() && step->value("type", Json()) == "ByteLevel";
}

std::unique_ptr<PreTokenizer> make_pattern_sequence(
    const std::vector<std::string>& patterns, const std::string& name) {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  for (const std::string& pattern : patterns)
    steps.push_back(split_with(make_regex_splitter(pattern, name), SplitBehavior::kIsolated));
  return std::make_unique<Sequence>(std::move(steps));
}

}  // namespace cheetah
