// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "model/tokenizer/subword_model.h"
#include "model/tokenizer/vocabulary.h"

namespace cheetah {

struct WordPieceOptions {
  std::string unk_token = "[UNK]";
  std::string continuing_prefix = "##";
  std::string word_prefix;  // precedes each word, for vocabularies that mark the beginning instead
  int64_t max_chars = 100;  // longer words are unknown
};

// Greedy: the longest token that starts the word, then the longest that continues it; unknown as a whole when
// one part is not found. The vocabulary must outlive the model.
class WordPiece : public SubwordModel {
 public:
  WordPiece(const Vocabulary& vocabulary, WordPieceOptions options);
  void tokenize(std::string_view piece, std::vector<int32_t>& ids) const override;

 private:
  bool append_parts(std::string_view word, std::vector<int32_t>& ids) const;
  const Vocabulary& vocabulary_;
  WordPieceOptions options_;
  int64_t longest_ = 0;  // bytes of the longest token: no need to try more
};

// Each piece is a token or unknown.
class WordLevel : public SubwordModel {
 public:
  WordLevel(const Vocabulary& vocabulary, std::string unk_token)
      : vocabulary_(vocabulary), unk_token_(std::move(unk_token)) {}
  void tokenize(std::string_view piece, std::vector<int32_t>& ids) const override;

 private:
  const Vocabulary& vocabulary_;
  std::string unk_token_;
};

}  // namespace cheetah
