// SPDX-License-Identifier: MIT
#include "engine/grammar/model_vocabulary.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "model/tokenizer/byte_alphabet.h"

namespace cheetah {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD: the decoder found no whole character

// A token of a single byte is written <0x0A> where the vocabulary has no character for it.
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned byte = 0;
  const char* digits = token.data() + 3;
  if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) return std::nullopt;
  return static_cast<char>(byte);
}

// Decoding after some other text tells what a token adds, whatever the decoder does at the start of a text.
// Pieces of characters do not survive decoding; their bytes are read from how the vocabulary writes them.
std::string bytes_of(const Tokenizer& tokenizer, int32_t anchor, std::string_view anchor_text, int32_t id) {
  const std::string both = tokenizer.decode(std::array{anchor, id}, false);
  std::string added = both.starts_with(anchor_text) ? both.substr(anchor_text.size()) : std::string();
  if (!added.empty() && added.find(kReplacement) == std::string::npos) return added;
  const std::string_view stored = tokenizer.token_text(id);
  if (const std::optional<char> byte = fallback_byte(stored)) return std::string(1, *byte);
  if (const std::optional<std::string> bytes = token_bytes(stored)) return *bytes;
  return added;
}

}  // namespace

std::shared_ptr<const TokenVocabulary> make_model_vocabulary(
    const Tokenizer& tokenizer, int64_t num_logits, std::vector<int32_t> eos_ids) {
  const int64_t known = tokenizer.vocab_size();
  std::vector<std::string> tokens(static_cast<size_t>(std::max(num_logits, known)));
  const std::vector<int32_t> letters = tokenizer.encode("a", {.add_special = false, .parse_special = false});
  const int32_t anchor = letters.empty() ? 0 : letters.back();
  const std::string anchor_text = tokenizer.decode(std::array{anchor}, false);
  for (int32_t id = 0; id < known; ++id)
    if (!tokenizer.is_special(id) && !tokenizer.token_text(id).empty())
      tokens[static_cast<size_t>(id)] = bytes_of(tokenizer, anchor, anchor_text, id);
  return std::make_shared<TokenVocabulary>(std::move(tokens), std::move(eos_ids));
}

}  // namespace cheetah
