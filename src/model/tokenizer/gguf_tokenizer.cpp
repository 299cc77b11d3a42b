// SPDX-License-Identifier: MIT
// A tokenizer from the tokenizer.ggml.* metadata of a GGUF file, built of the same parts as a tokenizer.json.
#include <algorithm>
#include <cctype>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "model/tokenizer/bpe.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/gguf_patterns.h"
#include "model/tokenizer/pipeline_tokenizer.h"
#include "model/tokenizer/turn_ends.h"
#include "model/tokenizer/unicode.h"
#include "model/tokenizer/unigram.h"
#include "model/tokenizer/wordpiece.h"

namespace cheetah {
namespace {

constexpr std::string_view kMetaspace = "\xE2\x96\x81";
enum TokenType : int64_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

class Builder {
 public:
  explicit Builder(const GgufFile& file) : file_(file), name_(file.name()) {}

  std::unique_ptr<Tokenizer> build() {
    const auto model = file_.string("tokenizer.ggml.model");
    if (!model) throw Error(format("{}: there is no tokenizer.ggml.model, so no vocabulary", name_));
    read_tokens();
    if (*model == "llama")
      make_sentencepiece();
    else if (*model == "gpt2" || *model == "gemma4")
      make_bpe(*model == "gemma4" ? "gemma4" : file_.string("tokenizer.ggml.pre").value_or("default"));
    else if (*model == "bert")
      make_wordpiece();
    else if (*model == "t5")
      make_unigram();
    else
      throw Error(format("{}: tokenizer.ggml.model \"{}\" is unknown, expected llama, gpt2, bert or t5",
          name_, printable(*model)));
    add_special_tokens();
    return std::make_unique<PipelineTokenizer>(std::move(parts_));
  }

 private:
  void read_tokens() {
    const std::vector<std::string_view> tokens = file_.strings("tokenizer.ggml.tokens");
    if (tokens.empty()) throw Error(format("{}: tokenizer.ggml.tokens is missing or empty", name_));
    if (std::ssize(tokens) > kMaxVocabulary)
      throw Error(format("{}: {} tokens, more than the limit of {}", name_, tokens.size(), kMaxVocabulary));
    parts_.vocabulary = std::make_unique<Vocabulary>();
    parts_.vocabulary->reserve(std::ssize(tokens));
    for (size_t id = 0; id < tokens.size(); ++id) {
      if (!is_valid_utf8(tokens[id])) throw Error(format("{}: token {} is not UTF-8", name_, id));
      const std::string text = tokens[id].empty() ? format("[EMPTY_{}]", id) : std::string(tokens[id]);
      parts_.vocabulary->add(text, static_cast<int64_t>(id), name_);
    }
    types_ = file_.integers("tokenizer.ggml.token_type");
    if (types_.empty()) types_.assign(tokens.size(), kNormal);
    scores_ = file_.numbers("tokenizer.ggml.scores");
    check_length("token_type", types_.size());
    if (!scores_.empty()) check_length("scores", scores_.size());
  }

  void check_length(const char* field, size_t length) const {
    if (static_cast<int64_t>(length) != num_tokens())
      throw Error(
          format("{}: tokenizer.ggml.{} has {} entries for {} tokens", name_, field, length, num_tokens()));
  }
  int64_t num_tokens() const { return parts_.vocabulary->id_limit(); }

  std::optional<int32_t> id_field(const char* field) const {
    const auto id = file_.integer(format("tokenizer.ggml.{}_token_id", field));
    if (!id) return std::nullopt;
    if (*id < 0 || *id >= num_tokens())
      throw Error(format(
          "{}: tokenizer.ggml.{}_token_id is {}, expected 0 to {}", name_, field, *id, num_tokens() - 1));
    return static_cast<int32_t>(*id);
  }
  bool flag(const char* field, bool fallback) const {
    return file_.boolean(format("tokenizer.ggml.{}", field)).value_or(fallback);
  }

  // BOS and EOS (or [CLS] and [SEP]) around the text, where the file or the kind asks for them.
  void frame(std::optional<int32_t> first, bool add_first, std::optional<int32_t> last, bool add_last) {
    std::vector<int32_t> prefix, suffix;
    if (flag("add_bos_token", add_first) && first) prefix.push_back(*first);
    if (add_last && last) suffix.push_back(*last);
    parts_.post_processor = PostProcessor(std::move(prefix), std::move(suffix));
  }

  void make_bpe(std::string_view pre) {
    const auto pre_tokenizer = gguf_pre_tokenizer(pre);
    if (!pre_tokenizer)
      throw Error(
          format("{}: tokenizer.ggml.pre \"{}\" is not known to this version", name_, printable(pre)));
    BpeOptions options;
    options.ignore_merges = pre_tokenizer->ignore_merges;
    options.byte_level = !pre_tokenizer->metaspace;
    options.byte_fallback = pre_tokenizer->metaspace;
    parts_.model = std::make_unique<Bpe>(*parts_.vocabulary, read_merges(), options, name_);
    parts_.pre_tokenizer = make_pattern_sequence(pre_tokenizer->patterns, name_);
    if (pre_tokenizer->metaspace) {
      parts_.normalizer = make_normalizer(space_rule(), name_);
      decode_metaspace(false);
    } else {
      byte_level_ = true;
      const Json decoder = {{"type", "ByteLevel"}};
      parts_.decoder = make_decoder_plan(&decoder, name_);
    }
    frame(id_field("bos"), pre_tokenizer->add_bos, id_field("eos"), flag("add_eos_token", false));
  }

  MergeList read_merges() const {
    const std::vector<std::string_view> lines = file_.strings("tokenizer.ggml.merges");
    if (lines.empty()) throw Error(format("{}: tokenizer.ggml.merges is missing or empty", name_));
    if (std::ssize(lines) > kMaxMerges)
      throw Error(format("{}: {} merges, more than the limit of {}", name_, lines.size(), kMaxMerges));
    MergeList merges;
    for (const std::string_view line : lines) {
      const size_t space = line.find(' ', 1);
      if (space == std::string_view::npos)
        throw Error(format("{}: merge {} (\"{}\") is not two tokens", name_, merges.size(), printable(line)));
      merges.emplace_back(line.substr(0, space), line.substr(space + 1));
    }
    return merges;
  }

  static Json space_rule() {
    return {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kMetaspace}};
  }

  // U+2581 and byte tokens to text; a space put before the text goes again.
  void decode_metaspace(bool drop_first_space) {
    Json steps = Json::array();
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", kMetaspace}}}, {"content", " "}});
    steps.push_back({{"type", "ByteFallback"}});
    steps.push_back({{"type", "Fuse"}});
    if (drop_first_space) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    const Json decoder = {{"type", "Sequence"}, {"decoders", steps}};
    parts_.decoder = make_decoder_plan(&decoder, name_);
  }

  void make_sentencepiece() {
    const bool prefix = flag("add_space_prefix", true);
    Json steps = Json::array();
    if (prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kMetaspace}});
    steps.push_back(space_rule());
    parts_.normalizer = make_normalizer({{"type", "Sequence"}, {"normalizers", steps}}, name_);
    BpeOptions options;
    options.byte_fallback = true;
    options.fuse_unk = true;
    const int32_t unknown = id_field("unknown").value_or(0);
    options.unk_token = parts_.vocabulary->text(unknown);
    if (scores_.empty()) throw Error(format("{}: tokenizer.ggml.scores is missing", name_));
    parts_.model = std::make_unique<Bpe>(*parts_.vocabulary, score_merges(), options, name_);
    decode_metaspace(prefix);
    frame(id_field("bos").value_or(1), true, id_field("eos").value_or(2), flag("add_eos_token", false));
  }

  // SentencePiece joins the two neighbours that make the token with the best score. The same as merges: every
  // way to cut a token into two tokens is one, and its rank is the place of the token's score.
  std::vector<RankedMerge> score_merges() const {
    std::vector<int32_t> order;
    for (int64_t id = 0; id < num_tokens(); ++id) {
      const auto token = static_cast<size_t>(id);
      if (!std::isfinite(scores_[token]))
        throw Error(
            format("{}: token {} has the score {}, expected a finite number", name_, id, scores_[token]));
      const bool text = types_[token] == kNormal || types_[token] == kUserDefined;
      if (text && !is_mark(static_cast<int32_t>(id), types_[token]))
        order.push_back(static_cast<int32_t>(id));
    }
    const auto score = [&](int32_t id) { return scores_[static_cast<size_t>(id)]; };
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return score(a) > score(b); });
    std::vector<RankedMerge> merges;
    uint32_t rank = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && score(order[i]) != score(order[i - 1])) ++rank;
      const std::string_view text = parts_.vocabulary->text(order[i]);
      for (size_t cut = 1; cut < text.size(); ++cut) {
        const auto left = parts_.vocabulary->find(text.substr(0, cut));
        const auto right = left ? parts_.vocabulary->find(text.substr(cut)) : std::nullopt;
        if (right) merges.push_back({*left, *right, order[i], rank});
      }
    }
    return merges;
  }

  void make_wordpiece() {
    const bool lower = flag("normalizer.lowercase", true);
    parts_.normalizer = make_normalizer({{"type", "BertNormalizer"}, {"lowercase", lower},
                                            {"strip_accents", flag("normalizer.strip_accents", lower)}},
        name_);
    parts_.pre_tokenizer = make_pre_tokenizer({{"type", "BertPreTokenizer"}}, false, name_);
    WordPieceOptions options;
    options.word_prefix = kMetaspace;
    options.continuing_prefix.clear();
    options.max_chars = INT64_MAX;
    options.unk_token =
        parts_.vocabulary->text(id_field("unknown").value_or(std::min<int64_t>(100, num_tokens() - 1)));
    parts_.model = std::make_unique<WordPiece>(*parts_.vocabulary, options);
    const Json decoder = {{"type", "Metaspace"}};
    parts_.decoder = make_decoder_plan(&decoder, name_);
    const auto first = id_field("bos") ? id_field("bos") : id_field("cls");
    const auto last =
        id_field("seperator") ? id_field("seperator") : id_field("eos");  // the key is misspelt in files
    frame(first, true, last, true);
  }

  void make_unigram() {
    if (scores_.empty()) throw Error(format("{}: tokenizer.ggml.scores is missing", name_));
    Json steps = Json::array();
    if (flag("remove_extra_whitespaces", false)) {
      steps.push_back({{"type", "Strip"}});
      steps.push_back({{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}});
    }
    parts_.normalizer = make_charsmap_normalizer(charsmap(), steps, name_);
    const bool prefix = flag("add_space_prefix", true);
    parts_.pre_tokenizer = make_pre_tokenizer(
        {{"type", "Metaspace"}, {"prepend_scheme", prefix ? "always" : "never"}, {"split", false}}, false,
        name_);
    UnigramOptions options;
    options.unk_id = id_field("unknown").value_or(2);
    parts_.model = std::make_unique<Unigram>(*parts_.vocabulary, scores_, options, name_);
    const Json decoder = {{"type", "Metaspace"}, {"prepend_scheme", prefix ? "always" : "never"}};
    parts_.decoder = make_decoder_plan(&decoder, name_);
    frame(id_field("bos"), false, id_field("eos").value_or(1), flag("add_eos_token", true));
  }

  std::string_view charsmap() const {
    const GgufValue* value = file_.find("tokenizer.ggml.precompiled_charsmap");
    if (!value) return {};
    if (!value->is_array || (value->type != GgufType::kU8 && value->type != GgufType::kI8))
      throw Error(format("{}: tokenizer.ggml.precompiled_charsmap is not a list of bytes", name_));
    return {reinterpret_cast<const char*>(value->bytes.data()), value->bytes.size()};
  }

  void add_special_tokens() {
    const bool strips_right = is_phi3();
    for (int64_t id = 0; id < num_tokens(); ++id) {
      const int64_t type = types_[static_cast<size_t>(id)];
      const bool mark = is_mark(static_cast<int32_t>(id), type);
      if (type != kControl && type != kUserDefined && type != kUnknown && !mark) continue;
      AddedToken token;
      token.content = parts_.vocabulary->text(static_cast<int32_t>(id));
      token.id = static_cast<int32_t>(id);
      token.special = mark || type != kUserDefined;
      if (byte_level_) append_byte_chars(token.spelling, token.content);  // it is text, not bytes in disguise
      token.rstrip = strips_right && token.content != "<unk>" && token.content != "<s>" &&
                     token.content != "<|endoftext|>";
      if (parts_.added.size() == kMaxAddedTokens)
        throw Error(format("{}: more than {} control and user-defined tokens", name_, kMaxAddedTokens));
      parts_.added.add(std::move(token), [](std::string_view content) { return std::string(content); });
    }
  }

  // Whether the token begins or ends a turn or a text although its type does not say so: what a user writes must
  // never become it.
  bool is_mark(int32_t id, int64_t type) const {
    const std::string_view text = parts_.vocabulary->text(id);
    if (type == kNormal) return is_turn_end(text) && text.starts_with("<|");
    if (type != kUserDefined) return false;
    const auto named = [&](const char* field) { return id_field(field) == id; };
    return is_turn_end(text) || named("bos") || named("eos") || named("eot") || named("eom");
  }

  // Phi-3's special tokens take the white space behind them, which GGUF has no field for.
  bool is_phi3() const {
    std::string model(file_.string("general.name").value_or(""));
    std::transform(model.begin(), model.end(), model.begin(),
        [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return model.find("phi-3") != std::string::npos || model.find("phi3") != std::string::npos;
  }

  const GgufFile& file_;
  std::string name_;
  TokenizerParts parts_;
  bool byte_level_ = false;
  std::vector<int64_t> types_;
  std::vector<double> scores_;
};

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::from_gguf(const GgufFile& file) { return Builder(file).build(); }

}  // namespace cheetah
