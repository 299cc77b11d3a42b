// SPDX-License-Identifier: MIT
#include "model/dry_breakers.h"

#include <algorithm>
#include <array>

#include "model/tokenizer/byte_alphabet.h"

namespace cheetah {
namespace {

// A token's text without decoding it, which for a whole vocabulary takes long: as byte-level vocabularies write it,
// and as the others do. Only one of them can hold a breaker.
std::array<std::string, 2> texts_of(std::string_view stored) {
  constexpr std::string_view kSpace = "\u2581";
  for (const std::string_view byte :
      {"<0x0A>", "<0x0D>", "<0x09>"})  // of the fallback, those that are characters
    if (stored == byte) return {std::string(1, byte[4] == 'A' ? '\n' : byte[4] == 'D' ? '\r' : '\t'), ""};
  std::string plain(stored);
  for (size_t at = 0; (at = plain.find(kSpace, at)) != std::string::npos;)
    plain.replace(at, kSpace.size(), " ");
  return {token_bytes(stored).value_or(""), std::move(plain)};
}

using Rests = std::vector<std::vector<int32_t>>;  // of a text, after its first 0, 1, 2, … bytes

void add_matches(
    int32_t id, std::string_view piece, std::string_view text, const Rests& rests, DryBreakers& breakers) {
  if (text.empty() || piece.empty()) return;
  if (piece.find(text) != std::string_view::npos) return breakers.add(id, {});
  for (size_t length = std::min(text.size() - 1, piece.size()); length > 0; --length)
    if (piece.ends_with(text.substr(0, length))) breakers.add(id, rests[length]);
}

}  // namespace

std::shared_ptr<const DryBreakers> make_dry_breakers(
    const Tokenizer& tokenizer, std::span<const std::string> texts) {
  auto breakers = std::make_shared<DryBreakers>();
  std::vector<Rests> rests;
  for (const std::string& text : texts) {
    rests.emplace_back(1);
    for (size_t at = 1; at < text.size(); ++at)
      rests.back().push_back(tokenizer.encode(
          std::string_view(text).substr(at), {.add_special = false, .parse_special = false}));
  }
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.is_special(id)) continue;
    for (const std::string& piece : texts_of(tokenizer.token_text(id)))
      for (size_t i = 0; i < texts.size(); ++i) add_matches(id, piece, texts[i], rests[i], *breakers);
  }
  return breakers;
}

}  // namespace cheetah
