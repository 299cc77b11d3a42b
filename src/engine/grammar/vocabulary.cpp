// SPDX-License-Identifier: MIT
#include "engine/grammar/vocabulary.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/utf8.h"

namespace cheetah {

TokenVocabulary::TokenVocabulary(std::vector<std::string> token_bytes, std::vector<int32_t> eos_ids)
    : token_bytes_(std::move(token_bytes)), eos_ids_(std::move(eos_ids)) {
  for (const int32_t id : eos_ids_)
    if (id < 0 || id >= size())
      throw Error(format("vocabulary: end-of-text id {} is outside of 0 to {}", id, size() - 1));
  sort_tokens();
  build_trie();
  mark_text_subtrees();
}

bool TokenVocabulary::is_eos(int32_t id) const {
  return std::find(eos_ids_.begin(), eos_ids_.end(), id) != eos_ids_.end();
}

void TokenVocabulary::sort_tokens() {
  for (int32_t id = 0; id < size(); ++id) {
    const std::string_view text = bytes(id);
    if (!text.empty() && text.size() <= kMaxTokenBytes && !is_eos(id)) ids_by_rank_.push_back(id);
  }
  std::stable_sort(
      ids_by_rank_.begin(), ids_by_rank_.end(), [&](int32_t a, int32_t b) { return bytes(a) < bytes(b); });
  std::string_view before;
  for (const int32_t id : ids_by_rank_) {
    const std::string_view text = bytes(id);
    const auto differs = std::mismatch(before.begin(), before.end(), text.begin(), text.end());
    shared_prefix_.push_back(static_cast<uint8_t>(differs.second - text.begin()));
    for (const char c : text) has_byte_[static_cast<uint8_t>(c)] = true;
    before = text;
  }
}

void TokenVocabulary::build_trie() {
  std::vector<int32_t> open;  // nodes on the path to the token before, by depth
  const auto close_to = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back())
      nodes_[static_cast<size_t>(open.back())].subtree_end = static_cast<int32_t>(nodes_.size());
  };
  for (size_t rank = 0; rank < ids_by_rank_.size(); ++rank) {
    const std::string_view text = bytes(ids_by_rank_[rank]);
    close_to(shared_prefix_[rank]);
    for (size_t i = open.size(); i < text.size(); ++i) {
      open.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.push_back({static_cast<uint8_t>(text[i]), static_cast<uint8_t>(i + 1), kNotText, 0,
          static_cast<int32_t>(rank)});
    }
  }
  close_to(0);
  nodes_.push_back(
      {0, 0, kNotText, static_cast<int32_t>(nodes_.size()) + 1, static_cast<int32_t>(ids_by_rank_.size())});
}

// Children come after their parent: going forwards every path is known, going backwards every subtree.
void TokenVocabulary::mark_text_subtrees() {
  const size_t count = nodes_.size() - 1;
  std::vector<Utf8Position> position(count), path(kMaxTokenBytes + 1);
  std::vector<int32_t> parent(count, -1), last_at(kMaxTokenBytes + 1, -1);
  for (size_t i = 0; i < count; ++i) {
    const size_t depth = nodes_[i].depth;
    position[i] = path[depth] = path[depth - 1].after(nodes_[i].byte);
    parent[i] = last_at[depth - 1];
    last_at[depth] = static_cast<int32_t>(i);
  }
  std::vector<uint8_t> all_text(count, 1), height(count, 0);
  text_below_.resize(count);
  for (size_t i = count; i-- > 0;) {
    if (position[i].at_boundary() && all_text[i]) nodes_[i].text_height = height[i];
    if (parent[i] < 0) continue;
    const auto p = static_cast<size_t>(parent[i]);
    all_text[p] = all_text[p] && all_text[i] && !position[i].invalid() && nodes_[i].byte != 0;
    text_below_[p].add(text_below_[i]);
    const bool starts = position[p].at_boundary();
    nodes_[i].byte < 0x80 ? text_below_[p].add(nodes_[i].byte) : text_below_[p].add_longer();
    height[p] = std::max<uint8_t>(height[p], static_cast<uint8_t>(height[i] + (starts ? 1 : 0)));
  }
}

}  // namespace cheetah
