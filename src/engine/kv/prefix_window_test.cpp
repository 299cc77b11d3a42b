// SPDX-License-Identifier: MIT
// The prefix cache of models whose layers do not all see as far back.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

#include "engine/kv/prefix_cache.h"

namespace cheetah {
namespace {

constexpr int64_t kWidth = 2;  // tokens per page

// Sequences that compute a text page by page, with a list of pages per group, and give back what they no longer
// see. What each page holds is noted, so that any wrong sharing shows.
class Windows {
 public:
  Windows(int64_t num_pages, std::vector<int64_t> windows)
      : pool(num_pages, kWidth), cache(pool, windows), windows_(std::move(windows)) {}

  struct Text {
    std::vector<int32_t> tokens;
    std::vector<PageList> lists;
    int64_t reused = 0, computed = 0;
    bool copies = false;  // the cache lacked windows
    PrefixCache::Writer writer = 0;
  };

  // False: the pages are not there, or another computes the beginning.
  bool start(Text& text) {
    text.writer = ++writers_;
    text.lists.assign(windows_.size(), {});
    const PrefixMatch match = cache.match("", text.tokens, text.lists);
    for (size_t g = 0; g < windows_.size(); ++g) expect_content(text, g);
    if (match.in_flight()) return false;
    for (const PageList& list : text.lists) list.for_each_held([this](PageIndex page) { pool.hold(page); });
    text.reused = text.computed = match.ready_tokens;
    text.copies = match.lacks_windows();
    if (!extend(text, true, pool.pages_for(std::ssize(text.tokens)))) {
      release(text);
      return false;
    }
    if (!text.copies) cache.insert("", text.tokens, text.lists, text.computed, text.writer);
    return true;
  }
  // One page more. False: no page for it.
  bool compute(Text& text) {
    const int64_t page = text.computed / kWidth;
    if (page == pool.pages_for(std::ssize(text.tokens))) return false;
    if (!extend(text, false, page + 1)) return false;
    for (size_t g = 0; g < windows_.size(); ++g) {
      expect_content(text, g);  // all that is seen is still what it was
      content_[{g, text.lists[g].at(page)}] = beginning(text, page);
    }
    text.computed += kWidth;
    cache.publish("", text.tokens, text.lists, text.computed, text.writer);
    for (size_t g = 0; g < windows_.size(); ++g)
      for (PageList& list = text.lists[g]; list.first < first_seen_page(windows_[g], text.computed, kWidth);
           ++list.first)
        pool.release(list.at(list.first));
    return true;
  }
  void finish(Text& text) {
    cache.abandon("", text.tokens, text.writer);
    const auto computed = std::span(text.tokens).first(static_cast<size_t>(text.computed));
    cache.insert("", computed, text.lists, text.computed);
    release(text);
  }
  int64_t serve(std::vector<int32_t> tokens) {
    Text text{.tokens = std::move(tokens), .lists = {}};
    EXPECT_TRUE(start(text));
    while (compute(text)) {
    }
    EXPECT_EQ(text.computed, std::ssize(text.tokens));
    finish(text);
    check();
    return text.reused;
  }
  void check() const {
    pool.check_invariants();
    cache.check_invariants();
  }

  PagePool pool;
  PrefixCache cache;

 private:
  static std::vector<int32_t> beginning(const Text& text, int64_t page) {
    return {text.tokens.begin(), text.tokens.begin() + (page + 1) * kWidth};
  }
  void expect_content(const Text& text, size_t g) {
    const PageList& list = text.lists[g];
    for (int64_t i = list.first; i < text.computed / kWidth; ++i)
      EXPECT_EQ((content_[{g, list.at(i)}]), beginning(text, i)) << "group " << g << " page " << i;
  }
  bool extend(Text& text, bool full, int64_t pages) {
    int64_t missing = 0;
    for (size_t g = 0; g < windows_.size(); ++g)
      if ((windows_[g] == 0) == full) missing += pages - text.lists[g].size();
    if (missing > pool.num_free()) cache.evict(missing - pool.num_free());
    if (missing > pool.num_free()) return false;
    for (size_t g = 0; g < windows_.size(); ++g)
      while ((windows_[g] == 0) == full && text.lists[g].size() < pages)
        text.lists[g].pages.push_back(*pool.allocate());
    return true;
  }
  void release(Text& text) {
    for (PageList& list : text.lists) {
      list.for_each_held([this](PageIndex page) { pool.release(page); });
      list.clear();
    }
  }

  std::vector<int64_t> windows_;
  std::map<std::pair<size_t, PageIndex>, std::vector<int32_t>> content_;  // all tokens up to a page's end
  PrefixCache::Writer writers_ = 0;
};

std::vector<int32_t> count_up(int32_t length) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < length; ++i) tokens.push_back(i);
  return tokens;
}

TEST(PrefixWindows, ATextGoesOnWhereItsWindowIsThere) {
  Windows w(40, {0, 5});  // the next token after 20 sees 4 of them: two pages
  EXPECT_EQ(w.serve(count_up(20)), 0);
  EXPECT_EQ(w.serve(count_up(24)), 20);
  std::vector<int32_t> branch = count_up(10);
  branch.insert(branch.end(), {90, 91});
  EXPECT_EQ(w.serve(branch), 10) << "with room to spare windows inside a text are kept as well";
}

TEST(PrefixWindows, WhatOnlyABranchWouldNeedGoesFirst) {
  Windows w(40, {0, 5});
  w.serve(count_up(20));
  EXPECT_EQ(w.cache.num_pages(), 20);
  EXPECT_EQ(w.cache.evict(8), 8);
  w.check();
  EXPECT_EQ(w.cache.peek("", count_up(20)).ready_tokens, 20) << "the end and the window before it are left";
  std::vector<int32_t> branch = count_up(10);
  const PrefixMatch match = w.cache.peek("", branch);
  EXPECT_EQ(match.ready_tokens, 0);
  EXPECT_EQ(match.stored_tokens, 10);
  EXPECT_TRUE(match.lacks_windows());
  branch.insert(branch.end(), {90, 91});
  EXPECT_EQ(w.serve(branch), 0);
  EXPECT_EQ(w.cache.peek("", count_up(10)).ready_tokens, 10) << "computing it again filled the gap";
  w.cache.evict(100);
  EXPECT_EQ(w.pool.num_free(), 40) << "nothing is held, so all can go";
}

TEST(PrefixWindows, AModelOfWindowsAloneKeepsOnlyWhatCanBeSeen) {
  Windows w(6, {5});
  EXPECT_EQ(w.serve(count_up(60)), 0) << "30 pages pass through 6";
  EXPECT_EQ(w.serve(count_up(62)), 60);
  w.cache.evict(100);
  EXPECT_EQ(w.pool.num_free(), 6);
  EXPECT_EQ(w.cache.num_nodes(), 0);
}

// Texts over a small alphabet, a page at a time, in any order, with pages always short.
RC_GTEST_PROP(PrefixWindows, EveryPageThatIsSeenHoldsItsText, ()) {
  const auto windows = *rc::gen::element(std::vector<int64_t>{0, 3}, std::vector<int64_t>{0, 0, 4, 7},
      std::vector<int64_t>{3}, std::vector<int64_t>{2, 6});
  Windows w(16 * static_cast<int64_t>(windows.size()), windows);
  std::vector<Windows::Text> running;
  const int steps = *rc::gen::inRange(1, 120);
  for (int step = 0; step < steps; ++step) {
    const int action = *rc::gen::inRange(0, 10);
    const auto pick = static_cast<size_t>(*rc::gen::inRange(0, 8));
    if (action == 0) {
      w.cache.evict(*rc::gen::inRange(0, 6));
    } else if (action <= 2 && running.size() < 4) {
      Windows::Text text{
          .tokens = *rc::gen::container<std::vector<int32_t>>(16, rc::gen::inRange(0, 2)), .lists = {}};
      if (w.start(text)) running.push_back(std::move(text));
    } else if (action == 3 && !running.empty()) {
      w.finish(running[pick % running.size()]);
      running.erase(running.begin() + static_cast<ptrdiff_t>(pick % running.size()));
    } else if (!running.empty()) {
      w.compute(running[pick % running.size()]);
    }
    w.check();
    const int64_t idle = w.pool.use().idle;
    if (action == 9) RC_ASSERT(w.cache.evict(1000) == idle);  // idle pages can always be had
  }
  for (Windows::Text& text : running) w.finish(text);
  w.cache.evict(1000);
  RC_ASSERT(w.pool.num_free() == w.pool.num_pages());
  RC_ASSERT(w.cache.num_nodes() == 0);
}

}  // namespace
}  // namespace cheetah
