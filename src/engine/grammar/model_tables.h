// SPDX-License-Identifier: MIT
#pragma once
// What the API needs of a model again and again, worked out once when it is loaded. Immutable; any thread.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cheetah {

class Model;
class TokenVocabulary;

class ModelTables {
 public:
  explicit ModelTables(const Model& model);

  // nullptr: the model has no tokenizer. Shared: every grammar of the model reads it.
  const std::shared_ptr<const TokenVocabulary>& vocabulary() const { return vocabulary_; }
  // What a token says, special ones by their name; empty for an id without text.
  std::string_view token_bytes(int32_t id) const;
  bool is_special(int32_t id) const;
  int64_t longest_token_bytes() const { return longest_token_bytes_; }

  // The special token (<|im_end|> …) written at this place of a text; empty: none.
  std::string_view special_at(std::string_view text, size_t at) const;
  bool has_special(std::string_view text) const;

 private:
  const Model& model_;
  std::shared_ptr<const TokenVocabulary> vocabulary_;
  std::array<std::vector<std::string>, 256> specials_;  // by first byte, longest first
  int64_t longest_token_bytes_ = 1;
};

}  // namespace cheetah
