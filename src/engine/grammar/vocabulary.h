// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grammar/text_class.h"

namespace cheetah {

// The bytes of every token of a model, as a trie. Built once per model, immutable, any thread may read it.
//
// The trie is one array in depth-first order: a walk that never rejects reads it front to back, and rejecting
// a prefix jumps to its `subtree_end`. The tokens of a subtree are the ranks [first_token, first_token of the
// end).
class TokenVocabulary {
 public:
  // token_bytes[id] is what the token adds to the text; empty for special and unused ids, which a grammar
  // never allows. The eos ids are allowed only where the grammar is complete, whatever their bytes.
  TokenVocabulary(std::vector<std::string> token_bytes, std::vector<int32_t> eos_ids);

  struct Node {
    uint8_t byte;         // on the edge into this node
    uint8_t depth;        // tokens longer than kMaxTokenBytes are left out
    uint8_t text_height;  // longest way down in characters, when all of it is whole text; else kNotText
    int32_t subtree_end;
    int32_t first_token;
  };
  static constexpr uint8_t kNotText = 255;
  static constexpr size_t kMaxTokenBytes = 250;

  int64_t size() const { return static_cast<int64_t>(token_bytes_.size()); }
  size_t mask_words() const { return (token_bytes_.size() + 63) / 64; }
  std::string_view bytes(int32_t id) const { return token_bytes_[static_cast<size_t>(id)]; }
  std::span<const int32_t> eos_ids() const { return eos_ids_; }
  bool is_eos(int32_t id) const;
  bool has_byte(uint8_t byte) const { return has_byte_[byte]; }  // in some token

  // The characters below a node.
  const TextClass& text_below(int32_t node) const { return text_below_[static_cast<size_t>(node)]; }
  std::span<const Node> nodes() const { return nodes_; }                 // the last is an end mark
  std::span<const int32_t> ids_by_rank() const { return ids_by_rank_; }  // in the order of their bytes

 private:
  void sort_tokens();
  void build_trie();
  void mark_text_subtrees();

  std::vector<std::string> token_bytes_;
  std::vector<int32_t> eos_ids_;
  std::vector<int32_t> ids_by_rank_;
  std::vector<uint8_t> shared_prefix_;  // bytes in common with the rank before
  std::vector<Node> nodes_;
  std::vector<TextClass> text_below_;  // apart from the nodes: a walk asks it for few of them
  bool has_byte_[256] = {};
};

}  // namespace cheetah
