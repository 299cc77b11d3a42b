// SPDX-License-Identifier: MIT
#pragma once
// A run of the prefix cache's tree. Private to its two source files.
#include <iterator>

#include "engine/kv/prefix_cache.h"

namespace cheetah {

inline constexpr PageIndex kNoPage = -1;

struct PrefixCache::Node {
  Node* parent = nullptr;  // nullptr: a root, which has no tokens
  std::vector<int32_t> tokens;
  std::vector<PageIndex> pages;  // [places, groups]; kNoPage where a window lacks one
  size_t groups = 1;
  uint64_t before = 0;          // chain_hash.h: of all tokens above
  std::vector<uint64_t> chain;  // … up to each place's end
  int64_t ready = 0;            // places that are computed; the others are in flight
  Writer writer = kNobody;      // of those
  int64_t without = 0;          // places at the beginning where no windowed group has a page
  Children children;
  std::list<Node*>::iterator position;

  int64_t size() const { return static_cast<int64_t>(pages.size() / groups); }
  PageIndex& at(int64_t place, size_t group) { return pages[static_cast<size_t>(place) * groups + group]; }
  PageIndex at(int64_t place, size_t group) const {
    return pages[static_cast<size_t>(place) * groups + group];
  }
  uint64_t end_of_chain() const { return chain.empty() ? before : chain.back(); }
  Run first_page() const { return Run(tokens).first(tokens.size() / static_cast<size_t>(size())); }
};

}  // namespace cheetah
