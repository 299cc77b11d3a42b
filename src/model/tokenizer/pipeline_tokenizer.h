// SPDX-License-Identifier: MIT
#pragma once
#include "model/tokenizer/added_tokens.h"
#include "model/tokenizer/decoder.h"
#include "model/tokenizer/normalizer.h"
#include "model/tokenizer/post_processor.h"
#include "model/tokenizer/pre_tokenizer.h"
#include "model/tokenizer/subword_model.h"
#include "model/tokenizer/tokenizer.h"
#include "model/tokenizer/vocabulary.h"

namespace cheetah {

// The parts of a tokenizer, as a file described them. Any step may be absent, only the model may not.
struct TokenizerParts {
  std::unique_ptr<Vocabulary> vocabulary;  // the model refers to it
  std::unique_ptr<SubwordModel> model;
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  AddedTokens added;
  PostProcessor post_processor;
  DecoderPlan decoder;
};

// Text → added tokens → normalizer → pre-tokenizer → model → post-processor, and back through the decoder.
class PipelineTokenizer : public Tokenizer {
 public:
  explicit PipelineTokenizer(TokenizerParts parts) : parts_(std::move(parts)) {}

  std::vector<int32_t> encode(std::string_view text, const EncodeOptions& options) const override;
  std::string decode(std::span<const int32_t> ids, bool skip_special) const override;
  int64_t vocab_size() const override;
  std::optional<int32_t> id_of(std::string_view token) const override;
  std::string_view token_text(int32_t id) const override;
  bool is_special(int32_t id) const override;
  std::unique_ptr<DecodeChain> start_decoding() const override;
  std::optional<std::string_view> decoded_token(int32_t id, bool skip_special) const override;

 private:
  void encode_raw(std::string_view text, bool at_start, bool parse_special, std::vector<int32_t>& ids) const;
  void encode_normal(std::string_view text, bool at_start, std::vector<int32_t>& ids) const;
  TokenizerParts parts_;
};

}  // namespace cheetah
