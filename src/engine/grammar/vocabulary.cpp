#include "engine/grammar/vocabulary.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "engine/grammar/utf8.h"

namespace cheetah {
namespace {

// Text that stands for itself inside a JSON string.
bool plain_byte(uint8_t byte) { return byte >= 0x20 && byte != '"' && byte != '\\'; }

}  // namespace

TokenVocabulary::TokenVocabulary(std::vector<std::string> token_bytes, std::vector<int32_t> eos_ids)
    : token_bytes_(std::move(token_bytes)), eos_ids_(std::move(eos_ids)) {
  for (const int32_t id : eos_ids_)
    if (id < 0 || id >= size())
      throw Error(format("vocabulary: end-of-text id {} is outside of 0 to {}", id, size() - 1));
  sort_tokens();
  build_trie();
  mark_plain_subtrees();
}

bool TokenVocabulary::is_eos(int32_t id) const {
  return std::find(eos_ids_.begin(), eos_ids_.end(), id) != eos_ids_.end();
}

void TokenVocabulary::sort_tokens() {
  for (int32_t id = 0; id < size(); ++id) {
    const std::string_view text = bytes(id);
    if (!text.empty() && text.size() <= kMaxTokenBytes && !is_eos(id)) ids_by_rank_.push_back(id);
  }
  std::stable_sort(ids_by_rank_.begin(), ids_by_rank_.end(),
                   [&](int32_t a, int32_t b) { return bytes(a) < bytes(b); });
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
      nodes_.push_back({static_cast<uint8_t>(text[i]), static_cast<uint8_t>(i + 1), kNotPlain, 0,
                        static_cast<int32_t>(rank)});
    }
  }
  close_to(0);
  nodes_.push_back(
      {0, 0, kNotPlain, static_cast<int32_t>(nodes_.size()) + 1, static_cast<int32_t>(ids_by_rank_.size())});
}

void TokenVocabulary::mark_plain_subtrees() {
  const size_t count = nodes_.size() - 1;
  std::vector<Utf8Position> position(count);
  std::vector<Utf8Position> path(kMaxTokenBytes + 1);
  std::vector<uint8_t> good(count, 1);
  for (size_t i = 0; i < count; ++i) {
    const Utf8Position above = path[nodes_[i].depth - 1u];
    position[i] = path[nodes_[i].depth] = above.after(nodes_[i].byte);
    good[i] = plain_byte(nodes_[i].byte) && !position[i].invalid();
  }
  // Children come after their parent: going backwards every subtree is known before it is used.
  std::vector<uint8_t> below_good(count, 1), height(count, 0);
  std::vector<int32_t> parent(count, -1), last_at(kMaxTokenBytes + 1, -1);
  for (size_t i = 0; i < count; ++i) {
    if (nodes_[i].depth > 1) parent[i] = last_at[nodes_[i].depth - 1u];
    last_at[nodes_[i].depth] = static_cast<int32_t>(i);
  }
  for (size_t i = count; i-- > 0;) {
    if (position[i].at_boundary() && below_good[i]) nodes_[i].plain_height = height[i];
    if (parent[i] < 0) continue;
    const auto p = static_cast<size_t>(parent[i]);
    below_good[p] = below_good[p] && good[i] && below_good[i];
    const uint8_t starts = position[p].at_boundary() ? 1 : 0;
    height[p] = std::max<uint8_t>(height[p], static_cast<uint8_t>(height[i] + starts));
  }
}

}  // namespace cheetah
