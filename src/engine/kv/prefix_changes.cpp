// SPDX-License-Identifier: MIT
// What others are told of the prefix cache.
#include <algorithm>

#include "engine/kv/prefix_node.h"

namespace cheetah {

void PrefixCache::list_stored(
    std::string_view salt, std::span<const int32_t> tokens, std::vector<PageIndex>& pages) const {
  pages.clear();
  const Path path = find(salt, tokens);
  for (const Step& step : path.steps)
    for (int64_t i = 0; i < step.used && step.before + i < path.stored; ++i)
      for (size_t g = 0; g < num_groups(); ++g)
        if (const PageIndex page = step.node->at(i, g); page != kNoPage) pages.push_back(page);
}

void PrefixCache::set_listener(Listener listener) {
  listener_ = std::move(listener);
  if (!listener_) return;
  for (const auto& [salt, root] : roots_) tell_all(*root);
}

// Never takes back what is ready.
void PrefixCache::set_ready(Node& node, int64_t ready) {
  for (; node.ready < ready; ++node.ready) tell(node, node.ready, true);
}

void PrefixCache::tell(const Node& node, int64_t place, bool stored) const {
  if (!listener_) return;
  const bool is_first = place == 0 && node.parent->parent == nullptr;
  const uint64_t above = place == 0 ? node.before : node.chain[static_cast<size_t>(place - 1)];
  listener_(
      {.stored = stored, .block = node.chain[static_cast<size_t>(place)], .parent = is_first ? 0 : above});
}

void PrefixCache::tell_gone(const Node& node, int64_t keep) const {
  for (int64_t place = node.ready; place-- > keep;) tell(node, place, false);
}

void PrefixCache::tell_all(const Node& node) const {
  for (int64_t place = 0; place < node.ready; ++place) tell(node, place, true);
  for (const auto& [key, child] : node.children) tell_all(*child);
}

}  // namespace cheetah
