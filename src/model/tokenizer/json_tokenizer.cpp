// SPDX-License-Identifier: MIT
#include "base/error.h"
#include "base/format.h"
#include "model/tokenizer/bpe.h"
#include "model/tokenizer/pipeline_tokenizer.h"
#include "model/tokenizer/tokenizer_file.h"
#include "model/tokenizer/unicode.h"
#include "model/tokenizer/unigram.h"
#include "model/tokenizer/wordpiece.h"

namespace cheetah {
namespace {

// Builds the parts of a tokenizer from one tokenizer.json.
class Builder {
 public:
  Builder(std::string_view json, const std::string& name)
      : name_(name), file_(read_tokenizer_file(json, name)), root_(file_.root, name) {}

  std::unique_ptr<Tokenizer> build() {
    if (const std::string version = root_.string_or("version", "1.0"); version != "1.0")
      throw Error(format("{}: tokenizer version \"{}\" is unknown, expected 1.0", name_, printable(version)));
    const Json* normalizer = root_.find("normalizer");
    if (normalizer) parts_.normalizer = make_normalizer(*normalizer, name_);
    make_model();
    const Json* pre_tokenizer = root_.find("pre_tokenizer");
    if (pre_tokenizer) parts_.pre_tokenizer = make_pre_tokenizer(*pre_tokenizer, raw_bytes_, name_);
    add_tokens();
    if (const Json* post_processor = root_.find("post_processor"))
      parts_.post_processor = PostProcessor(*post_processor, name_);
    parts_.decoder = make_decoder_plan(root_.find("decoder"), name_);
    return std::make_unique<PipelineTokenizer>(std::move(parts_));
  }

 private:
  void make_model() {
    const Json* model = root_.find("model");
    if (!model)
      throw Error(format("{}: there is no \"model\", expected BPE, Unigram, WordPiece or WordLevel", name_));
    const JsonFields fields(*model, name_ + ": model");
    if (!file_.has_vocab && !file_.has_scored) throw Error(format("{}: the model has no \"vocab\"", name_));
    read_vocabulary();
    const std::string type = fields.string_or("type", implied_type(fields));
    if (type == "BPE")
      make_bpe(fields);
    else if (type == "Unigram")
      make_unigram(fields);
    else if (type == "WordPiece")
      make_wordpiece(fields);
    else if (type == "WordLevel")
      parts_.model = std::make_unique<WordLevel>(*parts_.vocabulary, fields.string_or("unk_token", "<unk>"));
    else
      throw Error(format("{}: model type \"{}\" is unknown, expected BPE, Unigram, WordPiece or WordLevel",
          name_, printable(type)));
  }

  // Old files leave the type out; then the fields tell.
  std::string implied_type(const JsonFields& fields) const {
    if (file_.has_merges) return "BPE";
    if (file_.has_scored) return "Unigram";
    return fields.has("continuing_subword_prefix") || fields.has("max_input_chars_per_word") ? "WordPiece"
                                                                                             : "WordLevel";
  }

  void read_vocabulary() {
    parts_.vocabulary = std::make_unique<Vocabulary>();
    parts_.vocabulary->reserve(std::ssize(file_.vocab) + std::ssize(file_.scored));
    for (const auto& [token, id] : file_.vocab) parts_.vocabulary->add(token, id, name_);
    for (size_t id = 0; id < file_.scored.size(); ++id)
      parts_.vocabulary->add(file_.scored[id].first, static_cast<int64_t>(id), name_);
  }

  void make_bpe(const JsonFields& fields) {
    if (!file_.has_vocab || !file_.has_merges)
      throw Error(format("{}: a BPE model needs \"vocab\" as an object and \"merges\"", name_));
    BpeOptions options;
    options.unk_token = fields.string_or("unk_token", "");
    options.continuing_prefix = fields.string_or("continuing_subword_prefix", "");
    options.word_suffix = fields.string_or("end_of_word_suffix", "");
    options.fuse_unk = fields.boolean_or("fuse_unk", false);
    options.byte_fallback = fields.boolean_or("byte_fallback", false);
    options.ignore_merges = fields.boolean_or("ignore_merges", false);
    const Json* pre_tokenizer = root_.find("pre_tokenizer");
    raw_bytes_ = pre_tokenizer && ends_byte_level(*pre_tokenizer) && options.continuing_prefix.empty() &&
                 options.word_suffix.empty() && !options.byte_fallback;
    options.byte_level = raw_bytes_;
    parts_.model = std::make_unique<Bpe>(*parts_.vocabulary, file_.merges, options, name_);
  }

  void make_unigram(const JsonFields& fields) {
    if (!file_.has_scored)
      throw Error(format("{}: a Unigram model needs \"vocab\" as a list of tokens with scores", name_));
    std::vector<double> scores;
    for (const auto& [token, score] : file_.scored) scores.push_back(score);
    UnigramOptions options;
    if (fields.has("unk_id"))
      options.unk_id = static_cast<int32_t>(fields.integer("unk_id", 0, std::ssize(scores) - 1));
    options.byte_fallback = fields.boolean_or("byte_fallback", false);
    parts_.model = std::make_unique<Unigram>(*parts_.vocabulary, std::move(scores), options, name_);
  }

  void make_wordpiece(const JsonFields& fields) {
    WordPieceOptions options;
    options.unk_token = fields.string_or("unk_token", "[UNK]");
    options.continuing_prefix = fields.string_or("continuing_subword_prefix", "##");
    options.max_chars = fields.integer_or("max_input_chars_per_word", 100, 0, INT32_MAX);
    parts_.model = std::make_unique<WordPiece>(*parts_.vocabulary, options);
  }

  void add_tokens() {
    const Json* list = root_.find("added_tokens");
    if (!list) return;
    if (!list->is_array()) throw Error(format("{}: \"added_tokens\" is not a list", name_));
    if (std::ssize(*list) > kMaxAddedTokens)
      throw Error(
          format("{}: {} added tokens, more than the limit of {}", name_, list->size(), kMaxAddedTokens));
    for (const Json& item : *list) add_token(JsonFields(item, name_ + ": added_tokens"));
  }

  void add_token(const JsonFields& fields) {
    AddedToken token;
    token.content = fields.string("content");
    token.id = static_cast<int32_t>(fields.integer("id", 0, kMaxVocabulary - 1));
    token.special = fields.boolean_or("special", false);
    token.single_word = fields.boolean_or("single_word", false);
    token.lstrip = fields.boolean_or("lstrip", false);
    token.rstrip = fields.boolean_or("rstrip", false);
    token.normalized = fields.boolean_or("normalized", !token.special);
    check_token(token);
    parts_.added.add(std::move(token), [&](std::string_view content) {
      NormalText text{std::string(content)};
      if (parts_.normalizer) parts_.normalizer->apply(text);
      return text.text;
    });
  }

  void check_token(const AddedToken& token) const {
    if (token.content.empty() || std::ssize(token.content) > kMaxTokenBytes)
      throw Error(format("{}: the added token with id {} has {} bytes, expected 1 to {}", name_, token.id,
          token.content.size(), kMaxTokenBytes));
    if (parts_.added.find(token.content))
      throw Error(format("{}: added token \"{}\" stands twice", name_, printable(token.content)));
    if (const AddedToken* other = parts_.added.find(token.id))
      throw Error(format("{}: added tokens \"{}\" and \"{}\" share the id {}", name_,
          printable(other->content), printable(token.content), token.id));
    const auto known = parts_.vocabulary->find(token.content);
    if (known && *known != token.id)
      throw Error(format("{}: added token \"{}\" has id {}, but {} in the vocabulary", name_,
          printable(token.content), token.id, *known));
    const std::string_view at_id = parts_.vocabulary->text(token.id);
    if (!known && parts_.vocabulary->has(token.id))
      throw Error(format("{}: added token \"{}\" has the id {} of \"{}\"", name_, printable(token.content),
          token.id, printable(at_id)));
  }

  std::string name_;
  TokenizerFile file_;
  JsonFields root_;
  TokenizerParts parts_;
  bool raw_bytes_ = false;
};

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json, const std::string& name) {
  return Builder(tokenizer_json, name).build();
}

}  // namespace cheetah
