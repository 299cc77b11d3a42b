// SPDX-License-Identifier: MIT
#include "model/tokenizer/bpe.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/unicode.h"

namespace cheetah {
namespace {
constexpr size_t kShortWord = 96;  // symbols; above, scanning for the best pair costs more than queues
constexpr std::string_view kMetaspace = "\xE2\x96\x81";
constexpr char32_t kMetaspaceChar = 0x2581;

char32_t last_char(std::string_view text) {
  int64_t at = std::ssize(text) - 1;
  while (at > 0 && (static_cast<unsigned char>(text[static_cast<size_t>(at)]) & 0xC0) == 0x80) --at;
  return next_char(text, at);
}

std::vector<RankedMerge> rank_merges(const Vocabulary& vocabulary, const MergeList& merges,
    std::string_view continuing_prefix, const std::string& name) {
  std::vector<RankedMerge> ranked;
  ranked.reserve(merges.size());
  std::string joined;
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string &left = merges[rank].first, &right = merges[rank].second;
    const auto id_of = [&](std::string_view token) {
      const auto id = vocabulary.find(token);
      if (!id)
        throw Error(format("{}: merge {} (\"{}\" and \"{}\") needs \"{}\", which is not in the vocabulary",
            name, rank, printable(left), printable(right), printable(token)));
      return *id;
    };
    joined = left;
    joined += std::string_view(right).substr(std::min(right.size(), continuing_prefix.size()));
    ranked.push_back({id_of(left), id_of(right), id_of(joined), static_cast<uint32_t>(rank)});
  }
  return ranked;
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, const MergeList& merges, BpeOptions options, const std::string& name)
    : Bpe(vocabulary, rank_merges(vocabulary, merges, options.continuing_prefix, name), options, name) {}

Bpe::Bpe(const Vocabulary& vocabulary, const std::vector<RankedMerge>& merges, BpeOptions options,
    const std::string& name)
    : vocabulary_(vocabulary), options_(std::move(options)) {
  builds_itself_ = std::make_unique<std::atomic<uint8_t>[]>(static_cast<size_t>(vocabulary.id_limit()));
  if (!options_.unk_token.empty()) unk_id_ = vocabulary.find(options_.unk_token);
  for (int c = 0; c < 128; ++c) {
    const char text = static_cast<char>(c);
    ascii_ids_[static_cast<size_t>(c)] = vocabulary.find({&text, 1}).value_or(-1);
  }
  index_bytes();
  add_merges(merges, name);
}

void Bpe::index_bytes() {
  for (int byte = 0; byte < 256; ++byte) {
    std::string token = byte_fallback_token(static_cast<uint8_t>(byte));
    if (options_.byte_level) {
      token.clear();
      append_utf8(token, byte_to_char(static_cast<uint8_t>(byte)));
    }
    byte_ids_[static_cast<size_t>(byte)] = vocabulary_.find(token).value_or(-1);
  }
  if (!options_.byte_level) return;
  byte_words_.reserve(vocabulary_.size());
  for (int64_t id = 0; id < vocabulary_.id_limit(); ++id) {
    const auto token = static_cast<int32_t>(id);
    if (!vocabulary_.has(token)) continue;
    if (const auto bytes = token_bytes(vocabulary_.text(token))) byte_words_.insert(*bytes, token);
  }
}

void Bpe::add_merges(const std::vector<RankedMerge>& merges, const std::string& name) {
  merges_.reserve(std::ssize(merges));
  const bool plain =
      options_.continuing_prefix.empty() && options_.word_suffix.empty() && !options_.byte_level;
  for (const RankedMerge& merge : merges) {
    const std::string_view left = vocabulary_.text(merge.left), right = vocabulary_.text(merge.right);
    if (!merges_.insert(merge.left, merge.right, {merge.rank, merge.result}))
      throw Error(format("{}: merge {} (\"{}\" and \"{}\") stands twice", name, merge.rank, printable(left),
          printable(right)));
    if (plain && !left.empty() && right.starts_with(kMetaspace)) glued_to_metaspace_.insert(last_char(left));
  }
  cuts_at_metaspace_ = plain && vocabulary_.find(kMetaspace).has_value();
}

void Bpe::tokenize(std::string_view piece, std::vector<int32_t>& ids) const {
  if (options_.ignore_merges) {
    if (const auto id = find_word(piece)) return ids.push_back(*id);
  }
  if (!cuts_at_metaspace_) return tokenize_word(piece, ids);
  for (int64_t at = 0; at < std::ssize(piece);) {
    const int64_t end = next_cut(piece, at);
    tokenize_word(piece.substr(static_cast<size_t>(at), static_cast<size_t>(end - at)), ids);
    at = end;
  }
}

// Where the word that starts at `from` ends: before the next U+2581 that no merge can reach across. The
// character before it must be a token itself; an unknown one is cautiously kept together with what follows.
int64_t Bpe::next_cut(std::string_view piece, int64_t from) const {
  auto at = static_cast<size_t>(from);
  while ((at = piece.find(kMetaspace, at + 1)) != std::string_view::npos) {
    const char32_t before = last_char(piece.substr(0, at));
    if (before == kMetaspaceChar || glued_to_metaspace_.contains(before)) continue;
    std::string text;
    append_utf8(text, before);
    if (vocabulary_.find(text)) return static_cast<int64_t>(at);
  }
  return std::ssize(piece);
}

std::optional<int32_t> Bpe::find_word(std::string_view word) const {
  return options_.byte_level ? byte_words_.find(word) : vocabulary_.find(word);
}

// Most words are one token of the vocabulary: then one look-up replaces the merging.
void Bpe::tokenize_word(std::string_view word, std::vector<int32_t>& ids) const {
  if (const auto id = find_word(word)) {
    std::atomic<uint8_t>& state = builds_itself_[static_cast<size_t>(*id)];
    uint8_t known = state.load(std::memory_order_relaxed);
    if (known == 0) {
      known = merges_to_itself(word, *id) ? 1 : 2;
      state.store(known, std::memory_order_relaxed);
    }
    if (known == 1) return ids.push_back(*id);
  }
  merge_word(word, ids);
}

bool Bpe::merges_to_itself(std::string_view word, int32_t id) const {
  std::vector<int32_t> ids;
  merge_word(word, ids);
  return ids.size() == 1 && ids[0] == id;
}

void Bpe::merge_word(std::string_view word, std::vector<int32_t>& ids) const {
  const size_t first = ids.size();
  if (options_.byte_level)
    append_bytes(word, ids);
  else
    append_chars(word, ids);
  if (ids.size() - first <= kShortWord)
    merge_short(merges_, ids, first);
  else
    merge_long(merges_, ids, first);
}

void Bpe::append_unk(bool& pending, std::vector<int32_t>& ids) const {
  if (options_.unk_token.empty()) return;
  if (!unk_id_)
    throw Error(format("tokenizer: the unknown token \"{}\" is not in the vocabulary, but the text needs it",
        printable(options_.unk_token)));
  if (pending && !options_.fuse_unk) ids.push_back(*unk_id_);
  pending = true;
}

void Bpe::append_bytes(std::string_view word, std::vector<int32_t>& ids) const {
  bool pending = false;  // an unknown token not yet appended, so that the next can join it
  for (const char byte : word) {
    const int32_t id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id < 0) {
      append_unk(pending, ids);
      continue;
    }
    if (pending) ids.push_back(*unk_id_);
    pending = false;
    ids.push_back(id);
  }
  if (pending) ids.push_back(*unk_id_);
}

bool Bpe::append_fallback(std::string_view symbol, std::vector<int32_t>& ids) const {
  if (!options_.byte_fallback) return false;
  for (const char byte : symbol)
    if (byte_ids_[static_cast<unsigned char>(byte)] < 0) return false;
  for (const char byte : symbol) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  return true;
}

// An unknown token waits for the next known character even when byte tokens come between: that is how the
// reference library orders them.
void Bpe::append_chars(std::string_view word, std::vector<int32_t>& ids) const {
  bool pending = false;
  std::string decorated;
  for (size_t at = 0; at < word.size();) {
    const auto length = static_cast<size_t>(utf8_length(static_cast<unsigned char>(word[at])));
    std::string_view symbol = word.substr(at, length);
    const bool is_first = at == 0, is_last = at + length == word.size();
    at += length;
    const bool prefixed = !is_first && !options_.continuing_prefix.empty();
    const bool suffixed = is_last && !options_.word_suffix.empty();
    int32_t id = -1;
    if (prefixed || suffixed) {
      decorated = prefixed ? options_.continuing_prefix : std::string();
      decorated += symbol;
      if (suffixed) decorated += options_.word_suffix;
      symbol = decorated;
      id = vocabulary_.find(symbol).value_or(-1);
    } else {
      id = length == 1 ? ascii_ids_[static_cast<unsigned char>(symbol[0])]
                       : vocabulary_.find(symbol).value_or(-1);
    }
    if (id >= 0) {
      if (pending) ids.push_back(*unk_id_);
      pending = false;
      ids.push_back(id);
    } else if (!append_fallback(symbol, ids)) {
      append_unk(pending, ids);
    }
  }
  if (pending) ids.push_back(*unk_id_);
}

}  // namespace cheetah
