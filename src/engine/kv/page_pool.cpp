// SPDX-License-Identifier: MIT
#include "engine/kv/page_pool.h"

#include <algorithm>

#include "base/error.h"

namespace cheetah {

PagePool::PagePool(int64_t num_pages, int64_t page_tokens)
    : page_tokens_(page_tokens), counts_(static_cast<size_t>(num_pages)), cached_(counts_.size()) {
  CHEETAH_ASSERT(num_pages > 0 && page_tokens > 0, "a pool has pages and pages have tokens");
  free_.reserve(counts_.size());
  for (int64_t page = num_pages; page-- > 0;) free_.push_back(static_cast<PageIndex>(page));
}

std::optional<PageIndex> PagePool::allocate() {
  if (free_.empty()) return std::nullopt;
  const PageIndex page = free_.back();
  free_.pop_back();
  counts_[static_cast<size_t>(page)] = 1;
  return page;
}

void PagePool::hold(PageIndex page) {
  int32_t& count = counts_[static_cast<size_t>(page)];
  CHEETAH_ASSERT(count > 0, "only a held page can be shared");
  if (++count != 2) return;
  ++num_shared_;
  num_idle_ -= cached_[static_cast<size_t>(page)];
}

void PagePool::release(PageIndex page) {
  int32_t& count = counts_[static_cast<size_t>(page)];
  CHEETAH_ASSERT(count > 0, "a page is released once per holder");
  if (--count == 1) {
    --num_shared_;
    num_idle_ += cached_[static_cast<size_t>(page)];
  }
  if (count > 0) return;
  CHEETAH_ASSERT(!cached_[static_cast<size_t>(page)], "the prefix cache holds what it has marked");
  free_.push_back(page);
}

void PagePool::mark_cached(PageIndex page, bool cached) {
  CHEETAH_ASSERT(holders(page) > 0 && cached_[static_cast<size_t>(page)] != cached, "marked once");
  cached_[static_cast<size_t>(page)] = cached;
  if (holders(page) == 1) num_idle_ += cached ? 1 : -1;
}

std::optional<PagePool::Writable> PagePool::make_writable(PageIndex page) {
  CHEETAH_ASSERT(holders(page) > 0, "only a held page can be written");
  if (holders(page) == 1) return Writable{.page = page};
  const auto fresh = allocate();
  if (!fresh) return std::nullopt;
  release(page);
  return Writable{.page = *fresh, .copy_needed = true};
}

void PagePool::check_invariants() const {
  std::vector<bool> listed(counts_.size());
  for (const PageIndex page : free_) {
    CHEETAH_ASSERT(!listed[static_cast<size_t>(page)], "a free page is listed once");
    CHEETAH_ASSERT(holders(page) == 0, "a free page has no holder");
    listed[static_cast<size_t>(page)] = true;
  }
  int64_t shared = 0, idle = 0;
  for (size_t page = 0; page < counts_.size(); ++page) {
    CHEETAH_ASSERT(counts_[page] > 0 || listed[page], "a page without holders is free");
    shared += counts_[page] > 1;
    idle += counts_[page] == 1 && cached_[page];
  }
  CHEETAH_ASSERT(shared == num_shared_ && idle == num_idle_, "shared and idle pages are counted");
}

double fragmentation(int64_t held_pages, int64_t page_tokens, int64_t stored_tokens) {
  const int64_t places = held_pages * page_tokens;
  if (places == 0) return 0;
  return 1.0 - static_cast<double>(std::min(stored_tokens, places)) / static_cast<double>(places);
}

}  // namespace cheetah
