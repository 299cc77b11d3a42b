// SPDX-License-Identifier: MIT
// A tokenizer.json as tokenizer.ggml.*: byte-level BPE by the name of its pattern, SentencePiece's BPE by
// scores that follow the order of merges.
#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "model/template/template_source.h"
#include "model/tokenizer/gguf_patterns.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/tokenizer_file.h"
#include "quantize/gguf_model.h"

namespace cheetah {
namespace {

enum TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

// Text that tells the common patterns apart.
constexpr std::string_view kProbe =
    "Hello, World! It's 3,141.59 don't\tWE'LL  see\n\n  naïve café 你好世界 1234567 _x_ <b>\r\n日本語 ...   end ";

class TokenizerWriter {
 public:
  TokenizerWriter(const SourceModel& source, std::string_view text, GgufMetadata& metadata)
      : source_(source),
        name_(source.path() + "/tokenizer.json"),
        file_(read_tokenizer_file(text, name_)),
        tokenizer_(Tokenizer::from_json(text, name_)),
        metadata_(metadata) {}

  void write() {
    if (!file_.has_vocab || !file_.has_merges)
      throw Error(format("{}: only BPE tokenizers are written to GGUF", name_));
    collect_tokens();
    const bool pieces = byte_fallback();
    std::string pre;
    if (!pieces) pre = find_pattern();
    put(metadata_, pieces, pre);
    check(pieces, pre);
  }

 private:
  bool byte_fallback() const {
    const auto model = file_.root.find("model");
    return model != file_.root.end() && model->is_object() && model->value("byte_fallback", false);
  }

  void collect_tokens() {
    tokens_.resize(static_cast<size_t>(source_.family().traits.vocab));
    types_.assign(tokens_.size(), kUnused);
    for (size_t id = 0; id < tokens_.size(); ++id) tokens_[id] = format("[PAD{}]", id);
    const auto set = [&](const std::string& token, int64_t id, int32_t type) {
      if (id < 0 || id >= std::ssize(tokens_)) return;  // the model has no row for it
      tokens_[static_cast<size_t>(id)] = token;
      types_[static_cast<size_t>(id)] = type;
    };
    for (const auto& [token, id] : file_.vocab) {
      const bool is_byte = token.size() == 6 && token.starts_with("<0x") && token.back() == '>';
      set(token, id, is_byte && byte_fallback() ? kByte : kNormal);
    }
    const auto added = file_.root.find("added_tokens");
    if (added == file_.root.end() || !added->is_array()) return;
    for (const Json& token : *added)
      set(token.value("content", ""), token.value("id", int64_t{-1}),
          token.value("content", "") == "<unk>" ? kUnknown
          : token.value("special", false)       ? kControl
                                                : kUserDefined);
  }

  // The regular expressions of the pre-tokenizer, in order.
  std::vector<std::string> patterns() const {
    std::vector<std::string> found;
    bool byte_level_splits = false;
    const auto visit = [&](const Json& step, const auto& self) -> void {
      if (!step.is_object()) return;
      const std::string type = step.value("type", "");
      if (type == "Sequence")
        for (const Json& inner : step.value("pretokenizers", Json::array())) self(inner, self);
      if (type == "Split" && step.contains("pattern") && step["pattern"].contains("Regex"))
        found.push_back(step["pattern"]["Regex"].get<std::string>());
      if (type == "Digits")
        found.emplace_back(step.value("individual_digits", false) ? R"(\p{N})" : R"(\p{N}+)");
      if (type == "ByteLevel" && step.value("use_regex", true)) byte_level_splits = true;
    };
    visit(file_.root.value("pre_tokenizer", Json()), visit);
    if (byte_level_splits) found.push_back(gguf_pre_tokenizer("gpt-2")->patterns.front());
    return found;
  }

  std::string find_pattern() const {
    constexpr std::array kNames = {"gpt-2", "llama-bpe", "qwen2", "qwen35", "gpt-4o", "tekken", "deepseek-v3",
        "deepseek-llm", "deepseek-coder", "starcoder", "smaug-bpe", "minicpm5", "kimi-k2", "seed-coder",
        "bailingmoe", "exaone-moe", "falcon", "bloom", "default"};
    const std::vector<std::string> wanted = patterns();
    for (const char* name : kNames)
      if (gguf_pre_tokenizer(name)->patterns == wanted) return name;
    throw Error(format("{}: its pre-tokenizer has no name in GGUF", name_));
  }

  // A token's score is the place of the first merge that makes it; tokens that no merge makes come last.
  std::vector<float> scores() const {
    std::map<std::string, float, std::less<>> place;
    for (size_t i = 0; i < file_.merges.size(); ++i)
      place.emplace(std::string(file_.merges[i].first) + std::string(file_.merges[i].second),
          -static_cast<float>(i + 1));
    std::vector<float> scores;
    for (const std::string& token : tokens_) {
      const auto at = place.find(token);
      scores.push_back(at == place.end() ? -static_cast<float>(file_.merges.size() + 2) : at->second);
    }
    return scores;
  }

  bool has_space_prefix() const {
    const std::string text = dump_json(file_.root.value("normalizer", Json())) +
                             dump_json(file_.root.value("pre_tokenizer", Json()));
    return text.find("\"Prepend\"") != std::string::npos ||
           (text.find("\"Metaspace\"") != std::string::npos && text.find("\"never\"") == std::string::npos &&
               text.find("\"add_prefix_space\":false") == std::string::npos);
  }

  void put(GgufMetadata& meta, bool pieces, const std::string& pre) const {
    const ModelTraits& traits = source_.family().traits;
    meta.text("tokenizer.ggml.model", pieces ? "llama" : "gpt2");
    if (!pieces) meta.text("tokenizer.ggml.pre", pre);
    meta.texts("tokenizer.ggml.tokens", tokens_);
    meta.integers("tokenizer.ggml.token_type", types_);
    if (pieces) {
      meta.numbers("tokenizer.ggml.scores", scores());
      meta.flag("tokenizer.ggml.add_space_prefix", has_space_prefix());
    } else {
      std::vector<std::string> merges;
      for (const auto& [left, right] : file_.merges) merges.push_back(format("{} {}", left, right));
      meta.texts("tokenizer.ggml.merges", merges);
    }
    const std::vector<int32_t> prefix = tokenizer_->encode("", {.add_special = true});
    const int32_t bos = traits.bos_id >= 0 ? traits.bos_id : prefix.empty() ? -1 : prefix.front();
    if (bos >= 0) meta.count("tokenizer.ggml.bos_token_id", bos);
    if (!traits.eos_ids.empty()) meta.count("tokenizer.ggml.eos_token_id", traits.eos_ids.front());
    meta.flag("tokenizer.ggml.add_bos_token", !prefix.empty() && prefix.front() == bos);
    const TemplateSource chat = read_template_source(source_.path(), false);
    if (!chat.text.empty()) meta.text("tokenizer.chat_template", chat.text);
  }

  // A file of the tokenizer alone must split the probe as the source does.
  void check(bool pieces, const std::string& pre) const {
    GgufMetadata alone;
    put(alone, pieces, pre);
    const FilePlan plan = plan_gguf(alone, {});
    const GgufFile file =
        GgufFile::parse(std::as_bytes(std::span(plan.header.data(), plan.header.size())), name_);
    const EncodeOptions options{.add_special = true, .parse_special = false};
    if (Tokenizer::from_gguf(file)->encode(kProbe, options) != tokenizer_->encode(kProbe, options))
      throw Error(format("{}: written to GGUF, this tokenizer would split text differently", name_));
  }

  const SourceModel& source_;
  std::string name_;
  TokenizerFile file_;
  std::unique_ptr<Tokenizer> tokenizer_;
  GgufMetadata& metadata_;
  std::vector<std::string> tokens_;
  std::vector<int32_t> types_;
};

}  // namespace

void put_gguf_tokenizer(const SourceModel& source, GgufMetadata& metadata) {
  if (const auto text = source.checkpoint().text_file("tokenizer.json"))
    TokenizerWriter(source, *text, metadata).write();
}

}  // namespace cheetah
