// SPDX-License-Identifier: MIT
#include "engine/grammar/model_tables.h"

#include <algorithm>

#include "engine/grammar/model_vocabulary.h"
#include "model/model.h"
#include "model/tokenizer/tokenizer.h"

namespace cheetah {

ModelTables::ModelTables(const Model& model) : model_(model) {
  const Tokenizer* tokenizer = model.tokenizer();
  if (!tokenizer) return;
  vocabulary_ = make_model_vocabulary(*tokenizer, model.traits().vocab, model.traits().eos_ids);
  for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
    const std::string_view text = tokenizer->token_text(id);
    longest_token_bytes_ = std::max(longest_token_bytes_, std::ssize(text));
    if (!text.empty() && tokenizer->is_special(id))
      specials_[static_cast<unsigned char>(text.front())].emplace_back(text);
  }
  for (std::vector<std::string>& texts : specials_)
    std::ranges::sort(texts, std::greater(), &std::string::size);
}

std::string_view ModelTables::token_bytes(int32_t id) const {
  const Tokenizer* tokenizer = model_.tokenizer();
  if (!tokenizer || id < 0 || id >= vocabulary_->size()) return {};
  return tokenizer->is_special(id) ? tokenizer->token_text(id) : vocabulary_->bytes(id);
}

bool ModelTables::is_special(int32_t id) const {
  return model_.tokenizer() && model_.tokenizer()->is_special(id);
}

std::string_view ModelTables::special_at(std::string_view text, size_t at) const {
  for (const std::string& special : specials_[static_cast<unsigned char>(text[at])])
    if (text.substr(at).starts_with(special)) return special;
  return {};
}

bool ModelTables::has_special(std::string_view text) const {
  for (size_t i = 0; i < text.size(); ++i)
    if (!special_at(text, i).empty()) return true;
  return false;
}

}  // namespace cheetah
