// SPDX-License-Identifier: MIT
#include "model/tokenizer/wordpiece.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace cheetah {
namespace {

int32_t unknown_id(const Vocabulary& vocabulary, const std::string& unk_token) {
  const auto id = vocabulary.find(unk_token);
  if (!id)
    throw Error(format("tokenizer: the unknown token \"{}\" is not in the vocabulary, but the text needs it",
        printable(unk_token)));
  return *id;
}

int64_t count_chars(std::string_view text) {
  return std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

}  // namespace

WordPiece::WordPiece(const Vocabulary& vocabulary, WordPieceOptions options)
    : vocabulary_(vocabulary), options_(std::move(options)) {
  for (int64_t id = 0; id < vocabulary.id_limit(); ++id)
    longest_ = std::max(longest_, std::ssize(vocabulary.text(static_cast<int32_t>(id))));
}

void WordPiece::tokenize(std::string_view piece, std::vector<int32_t>& ids) const {
  const size_t first = ids.size();
  std::string marked;
  if (!options_.word_prefix.empty()) piece = marked = options_.word_prefix + std::string(piece);
  if (count_chars(piece) <= options_.max_chars && append_parts(piece, ids)) return;
  ids.resize(first);
  ids.push_back(unknown_id(vocabulary_, options_.unk_token));
}

bool WordPiece::append_parts(std::string_view word, std::vector<int32_t>& ids) const {
  std::string candidate;
  for (size_t begin = 0; begin < word.size();) {
    size_t end = std::min(word.size(), begin + static_cast<size_t>(longest_));
    while (end < word.size() && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80) --end;
    std::optional<int32_t> found;
    while (end > begin) {
      candidate = begin > 0 ? options_.continuing_prefix : std::string();
      candidate += word.substr(begin, end - begin);
      found = vocabulary_.find(candidate);
      if (found) break;
      do --end;
      while (end > begin && (static_cast<unsigned char>(word[end]) & 0xC0) == 0x80);
    }
    if (!found) return false;
    ids.push_back(*found);
    begin = end;
  }
  return true;
}

void WordLevel::tokenize(std::string_view piece, std::vector<int32_t>& ids) const {
  const auto id = vocabulary_.find(piece);
  ids.push_back(id ? *id : unknown_id(vocabulary_, unk_token_));
}

}  // namespace cheetah
