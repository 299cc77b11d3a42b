// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "model/tokenizer/splitter.h"

namespace cheetah {

// A text and the pieces it is cut into. Steps either cut the pieces further or rewrite the text under them.
struct PieceList {
  struct Piece {
    int64_t begin, end;
    bool at_start;  // begins where the whole input begins
  };
  std::string text;
  std::vector<Piece> pieces;

  std::string_view view(const Piece& piece) const {
    return std::string_view(text).substr(
        static_cast<size_t>(piece.begin), static_cast<size_t>(piece.end - piece.begin));
  }
};

// Cuts text into pieces no token crosses. Immutable after loading, any thread.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void apply(PieceList& list) const = 0;
};

// From the "pre_tokenizer" of a tokenizer.json. With `raw_bytes`, a ByteLevel that comes last leaves the
// bytes as they are: the model then looks up bytes itself.
std::unique_ptr<PreTokenizer> make_pre_tokenizer(
    const Json& description, bool raw_bytes, const std::string& name);
bool ends_byte_level(const Json& description);

// For vocabularies that name their patterns instead of describing them.
std::unique_ptr<PreTokenizer> make_pattern_sequence(
    const std::vector<std::string>& patterns, const std::string& name);

}  // namespace cheetah
