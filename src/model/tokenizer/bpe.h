// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "model/tokenizer/merge_table.h"
#include "model/tokenizer/subword_model.h"
#include "model/tokenizer/vocabulary.h"

namespace cheetah {

struct BpeOptions {
  std::string unk_token;  // empty: unknown characters vanish
  std::string continuing_prefix;
  std::string word_suffix;
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
  bool byte_level = false;     // pieces arrive as raw bytes, the vocabulary writes them in GPT-2's alphabet
};

using MergeList = std::vector<std::pair<std::string, std::string>>;

// A merge by ids; equal ranks are equally early.
struct RankedMerge {
  int32_t left, right, result;
  uint32_t rank;
};

// Byte-pair encoding: start from characters (or bytes) and join the neighbours whose merge comes first in the
// list, leftmost first, until none is left.
class Bpe : public SubwordModel {
 public:
  // The vocabulary must outlive the model. Throws Error, prefixed with `name`, on merges of unknown tokens.
  Bpe(const Vocabulary& vocabulary, const MergeList& merges, BpeOptions options, const std::string& name);
  Bpe(const Vocabulary& vocabulary, const std::vector<RankedMerge>& merges, BpeOptions options,
      const std::string& name);
  void tokenize(std::string_view piece, std::vector<int32_t>& ids) const override;

 private:
  void add_merges(const std::vector<RankedMerge>& merges, const std::string& name);
  void index_bytes();
  void tokenize_word(std::string_view word, std::vector<int32_t>& ids) const;
  void merge_word(std::string_view word, std::vector<int32_t>& ids) const;
  bool merges_to_itself(std::string_view word, int32_t id) const;
  std::optional<int32_t> find_word(std::string_view word) const;
  void append_bytes(std::string_view word, std::vector<int32_t>& ids) const;
  void append_chars(std::string_view word, std::vector<int32_t>& ids) const;
  bool append_fallback(std::string_view symbol, std::vector<int32_t>& ids) const;
  void append_unk(bool& pending, std::vector<int32_t>& ids) const;
  int64_t next_cut(std::string_view piece, int64_t from) const;

  const Vocabulary& vocabulary_;
  BpeOptions options_;
  MergeTable merges_;
  StringTable byte_words_;              // byte_level: raw bytes of each token
  std::array<int32_t, 256> byte_ids_;   // byte_level: the token of each byte; otherwise of "<0xNN>"; -1: none
  std::array<int32_t, 128> ascii_ids_;  // the token of each ASCII character; -1: none
  std::optional<int32_t> unk_id_;
  // Whether the merges build a token from its own text, found out on first use: 0 not known, 1 yes, 2 no.
  // Every thread finds the same answer, so relaxed writes are enough.
  std::unique_ptr<std::atomic<uint8_t>[]> builds_itself_;
  // A text without pre-tokenizer is one piece; it may be cut before U+2581 where no merge can cross.
  bool cuts_at_metaspace_ = false;
  std::unordered_set<char32_t>
      glued_to_metaspace_;  // last characters of left halves whose right half starts so
};

// Joins symbols[first..] in place; exposed so that a test holds the short and the long way equal.
void merge_short(const MergeTable& merges, std::vector<int32_t>& symbols, size_t first);
void merge_long(const MergeTable& merges, std::vector<int32_t>& symbols, size_t first);

}  // namespace cheetah
