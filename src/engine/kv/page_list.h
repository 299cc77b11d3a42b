// SPDX-License-Identifier: MIT
#pragma once
#include <iterator>
#include <vector>

#include "engine/kv/page_pool.h"

namespace cheetah {

// A sequence's pages in one group of layers (model/kv_layout.h): page i holds tokens [i, i + 1) *
// page_tokens. Those before `first` are out of the group's window and given back; their entries mean nothing.
struct PageList {
  std::vector<PageIndex> pages;
  int64_t first = 0;

  int64_t size() const { return std::ssize(pages); }
  int64_t num_held() const { return size() - first; }
  PageIndex at(int64_t index) const { return pages[static_cast<size_t>(index)]; }
  bool holds(int64_t index) const { return index >= first && index < size(); }
  template <class Visit>
  void for_each_held(const Visit& visit) const {
    for (int64_t i = first; i < size(); ++i) visit(at(i));
  }
  void clear() {
    pages.clear();
    first = 0;
  }
};

// The first page whose tokens the next token after `tokens` of them sees.
inline int64_t first_seen_page(int64_t window, int64_t tokens, int64_t page_tokens) {
  return window > 0 && tokens >= window ? (tokens + 1 - window) / page_tokens : 0;
}

}  // namespace cheetah
