// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <optional>
#include <string>

#include "model/tokenizer/byte_trie.h"
#include "model/tokenizer/subword_model.h"
#include "model/tokenizer/vocabulary.h"

namespace cheetah {

struct UnigramOptions {
  std::optional<int32_t> unk_id;
  bool byte_fallback = false;
};

// The most probable way to cut a piece into tokens, each with its log probability (Viterbi). The vocabulary
// must outlive the model.
class Unigram : public SubwordModel {
 public:
  // One score per id. Throws Error, prefixed with `name`, when one is not finite.
  Unigram(const Vocabulary& vocabulary, std::vector<double> scores, UnigramOptions options,
      const std::string& name);
  void tokenize(std::string_view piece, std::vector<int32_t>& ids) const override;

 private:
  // The best path that ends at a byte.
  struct Node {
    double score = 0;
    int32_t id = -1;
    int32_t begin = -1;  // -1: nothing ends here yet
  };
  std::vector<Node> best_paths(std::string_view piece) const;
  void append_unknown(std::string_view text, std::vector<int32_t>& ids) const;
  int32_t unk_id() const;

  const Vocabulary& vocabulary_;
  std::vector<double> scores_;
  UnigramOptions options_;
  ByteTrie trie_;
  double unk_score_ = 0;
  std::array<int32_t, 256> byte_ids_;  // of "<0xNN>"; -1: none
};

}  // namespace cheetah
