// SPDX-License-Identifier: MIT
#pragma once
#include <bitset>
#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "model/tokenizer/byte_trie.h"
#include "model/tokenizer/vocabulary.h"

namespace cheetah {

struct AddedToken {
  std::string content;
  std::string spelling = {};  // what the decoder gets for it; "": the content
  int32_t id = 0;
  bool special = false;
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;
  bool normalized = false;  // looked for in the normalized text, not in the raw one
};

// A stretch of text that is one added token, or (token: nullptr) ordinary text.
struct Segment {
  int64_t begin, end;
  const AddedToken* token;
};

// The tokens that are found in the text before any model sees it. Immutable after the last add.
class AddedTokens {
 public:
  using Normalize = std::function<std::string(std::string_view)>;
  void add(AddedToken token, const Normalize& normalize);

  enum class Text { kRaw, kNormalized };
  // Cuts text (valid UTF-8) at the tokens of that kind, the leftmost first and of those the longest.
  std::vector<Segment> split(std::string_view text, Text kind, bool parse_special) const;
  bool has_any(Text kind) const { return finder(kind).count > 0; }

  const AddedToken* find(std::string_view content) const;
  const AddedToken* find(int32_t id) const;
  bool is_special(std::string_view content) const { return special_.contains(std::string(content)); }
  int64_t id_limit() const { return id_limit_; }
  int64_t size() const { return static_cast<int64_t>(by_id_.size()); }

 private:
  struct Finder {
    ByteTrie trie;
    std::bitset<256> first_bytes;
    int64_t count = 0;
  };
  const Finder& finder(Text kind) const { return kind == Text::kRaw ? raw_ : normalized_; }
  Finder raw_, normalized_;
  std::unordered_map<int32_t, AddedToken> by_id_;
  std::unordered_map<std::string, int32_t> by_content_;
  std::unordered_set<std::string> special_;
  int64_t id_limit_ = 0;
};

}  // namespace cheetah
