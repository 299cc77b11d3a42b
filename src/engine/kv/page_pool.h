// SPDX-License-Identifier: MIT
#pragma once
// Who holds which page of the KV cache. Knows nothing of their bytes (page_bytes.h does).
#include <cstdint>
#include <optional>
#include <vector>

namespace cheetah {

using PageIndex = int32_t;  // as the attention kernel's block tables have it

struct PageUse {
  int64_t total = 0;
  int64_t free = 0;
  int64_t shared = 0;  // held more than once
  int64_t idle = 0;    // held by the prefix cache alone

  int64_t held() const { return total - free; }
};

// Fixed pages with reference counts. One thread. Always: a page is free exactly when its count is zero, and
// each free page is in the free list once. The same calls give the same pages.
class PagePool {
 public:
  PagePool(int64_t num_pages, int64_t page_tokens);

  int64_t page_tokens() const { return page_tokens_; }
  int64_t pages_for(int64_t tokens) const { return (tokens + page_tokens_ - 1) / page_tokens_; }
  int64_t num_pages() const { return static_cast<int64_t>(counts_.size()); }
  int64_t num_free() const { return static_cast<int64_t>(free_.size()); }
  PageUse use() const {
    return {.total = num_pages(), .free = num_free(), .shared = num_shared_, .idle = num_idle_};
  }

  std::optional<PageIndex> allocate();  // held once; nullopt: all pages are held
  void hold(PageIndex page);            // once more
  void release(PageIndex page);         // free again when this was the last holder
  int32_t holders(PageIndex page) const { return counts_[static_cast<size_t>(page)]; }

  int32_t sequences(PageIndex page) const {  // holders that are not the prefix cache
    return holders(page) - cached_[static_cast<size_t>(page)];
  }
  // One of the holders is the prefix cache, or no longer.
  void mark_cached(PageIndex page, bool cached);

  // A page that its one holder may write: the page itself, or, where others hold it too, a fresh one in its
  // place, into which the caller copies the bytes. nullopt: no page is free for the copy.
  struct Writable {
    PageIndex page = 0;
    bool copy_needed = false;
  };
  std::optional<Writable> make_writable(PageIndex page);

  // Aborts when something above does not hold.
  void check_invariants() const;

 private:
  int64_t page_tokens_;
  std::vector<int32_t> counts_;
  std::vector<PageIndex> free_;  // the last is given out next: its bytes are the warmest
  std::vector<bool> cached_;
  int64_t num_shared_ = 0;
  int64_t num_idle_ = 0;  // cached with one holder
};

// The share of the held pages' token places that hold no token: what rounding up to pages costs.
double fragmentation(int64_t held_pages, int64_t page_tokens, int64_t stored_tokens);

}  // namespace cheetah
