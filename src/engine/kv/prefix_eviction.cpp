// SPDX-License-Identifier: MIT
// What leaves the prefix cache when pages run short.
#include <algorithm>

#include "engine/kv/prefix_node.h"

namespace cheetah {

int64_t PrefixCache::evict(int64_t count) {
  int64_t freed = 0;
  for (auto at = recent_.begin(); at != recent_.end() && freed < count;) {
    Node& node = **at++;
    if (has_windows_) freed += evict_windows(node, count - freed, true);
    if (node.children.empty()) freed += evict_end(node, count - freed);
  }
  if (has_windows_)
    for (auto at = recent_.begin(); at != recent_.end() && freed < count; ++at)
      freed += evict_windows(**at, count - freed, false);
  if (freed > 0) std::erase_if(roots_, [](const auto& root) { return root.second->children.empty(); });
  return freed;
}

// Idle pages of windowed groups; with `keep_end`, not those that a text going on from the node's end sees.
int64_t PrefixCache::evict_windows(Node& node, int64_t count, bool keep_end) {
  int64_t freed = 0, left_until = node.size();
  for (size_t g = 0; g < num_groups(); ++g) {
    if (windows_[g] == 0) continue;
    const int64_t seen = (windows_[g] - 1 + pool_.page_tokens() - 1) / pool_.page_tokens();
    const int64_t end = keep_end ? node.size() - seen : node.size();
    for (int64_t i = node.without; i < node.size(); ++i) {
      PageIndex& place = node.at(i, g);
      if (i < end && freed < count && place != kNoPage && pool_.holders(place) == 1) {
        give_back(place);
        ++freed;
      }
      if (place != kNoPage) {
        left_until = std::min(left_until, i);
        if (freed == count || i >= end) break;
      }
    }
  }
  node.without = std::max(node.without, left_until);
  return freed;
}

// From the last place up to one that is pinned. Places without any page go on the way.
int64_t PrefixCache::evict_end(Node& node, int64_t count) {
  if (node.ready < node.size()) return 0;
  int64_t keep = node.size(), freed = 0;
  while (keep > 0 && freed < count && !is_pinned(node, keep - 1)) {
    --keep;
    for (size_t g = 0; g < num_groups(); ++g) {
      const PageIndex page = node.at(keep, g);
      freed += page != kNoPage && pool_.holders(page) == 1;
    }
  }
  if (keep < node.size()) cut(node, keep);
  return freed;
}

// A sequence goes on from there, or from below.
bool PrefixCache::is_pinned(const Node& node, int64_t index) const {
  for (size_t g = 0; g < num_groups(); ++g) {
    const PageIndex page = node.at(index, g);
    if ((windows_[g] == 0 || !has_full_) && page != kNoPage && pool_.holders(page) > 1) return true;
  }
  return false;
}

}  // namespace cheetah
