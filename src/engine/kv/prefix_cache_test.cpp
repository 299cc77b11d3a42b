// SPDX-License-Identifier: MIT
#include "engine/kv/prefix_cache.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>

namespace cheetah {
namespace {

constexpr int64_t kWidth = 2;  // tokens per page
constexpr PrefixCache::Writer kWriter = 1;

// A cache with sequences that compute texts and let go of them, as the engine does.
class Fixture {
 public:
  explicit Fixture(int64_t num_pages) : pool(num_pages, kWidth), cache(pool) {}

  // A text from its first token to finished: reuses what matches, computes the rest, leaves all in the cache.
  // Returns the reused tokens; evicts what it must.
  int64_t serve(const std::vector<int32_t>& text, std::string_view salt = "") {
    PageList list;
    const int64_t reused = cache.match(salt, text, {&list, 1}).ready_tokens;
    for (const PageIndex page : list.pages) pool.hold(page);
    const int64_t missing = pool.pages_for(std::ssize(text)) - list.size();
    if (missing > pool.num_free()) cache.evict(missing - pool.num_free());
    for (int64_t i = 0; i < missing; ++i) list.pages.push_back(pool.allocate().value());
    cache.insert(salt, text, {&list, 1}, std::ssize(text));
    for (const PageIndex page : list.pages) pool.release(page);
    check();
    return reused;
  }
  int64_t known(const std::vector<int32_t>& text, std::string_view salt = "") const {
    return cache.peek(salt, text).known_tokens;
  }
  void check() const {
    pool.check_invariants();
    cache.check_invariants();
  }

  PagePool pool;
  PrefixCache cache;
};

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(PrefixCache, FollowsTheNineStepsOfTwoChatsAndABatch) {
  Fixture f(10);
  const std::vector<int32_t> system = {1, 1, 1, 1};
  // 1: nothing is there.
  EXPECT_EQ(f.cache.num_nodes(), 0);
  // 2: the first chat becomes one edge.
  const auto chat = joined(system, {2, 2});
  EXPECT_EQ(f.serve(chat), 0);
  EXPECT_EQ(f.cache.num_nodes(), 1);
  // 3: its second turn is appended below.
  const auto second_turn = joined(chat, {3, 3, 4, 4});
  EXPECT_EQ(f.serve(second_turn), 6);
  EXPECT_EQ(f.cache.num_nodes(), 2);
  // 4: a new chat shares the system prompt: the edge is split there.
  const auto other = joined(system, {5, 5, 6, 6, 7, 7});
  EXPECT_EQ(f.serve(other), 4);
  EXPECT_EQ(f.cache.num_nodes(), 4);
  EXPECT_EQ(f.cache.num_pages(), 8);
  // 5: memory is short: the other chat's next turn pushes out the first chat's last turn, the oldest leaf.
  const auto other_turn = joined(other, {8, 8, 8, 9, 8, 7});
  EXPECT_EQ(f.serve(other_turn), 10);
  EXPECT_EQ(f.known(second_turn), 8) << "of the oldest leaf only as much leaves as is needed";
  // 6: an unrelated query gets an edge of its own at the root.
  const std::vector<int32_t> query = {20, 20, 21, 21};
  EXPECT_EQ(f.serve(query), 0);
  EXPECT_EQ(f.known(second_turn), 4) << "the first chat is gone but for the shared system prompt";
  // 7: a batch shares the query's few-shot examples: split.
  EXPECT_EQ(f.serve({20, 20, 22, 22}), 2);
  EXPECT_EQ(f.serve({20, 20, 23, 23}), 2);
  EXPECT_EQ(f.known(query), 4);
  // 8: the first chat returns; the other chat, unused the longest, gives way from its end.
  EXPECT_EQ(f.serve(chat), 4);
  EXPECT_LT(f.known(other_turn), 16);
  EXPECT_EQ(f.known(system), 4);
  // 9: more samples of the batch: three more leaves of one page leave.
  EXPECT_EQ(f.serve({20, 20, 24, 24}), 2);
  EXPECT_EQ(f.serve({20, 20, 25, 25}), 2);
  EXPECT_EQ(f.serve({20, 20, 26, 26}), 2);
  EXPECT_EQ(f.known(other_turn), 4) << "only the system prompt is left of it";
  EXPECT_EQ(f.known({20, 20, 26, 26}), 4);
}

TEST(PrefixCache, KeepsTenantsApart) {
  Fixture f(8);
  f.serve({1, 2, 3, 4}, "a");
  EXPECT_EQ(f.known({1, 2, 3, 4}, "a"), 4);
  EXPECT_EQ(f.known({1, 2, 3, 4}, "b"), 0);
  EXPECT_EQ(f.serve({1, 2, 3, 4}, "b"), 0);
  EXPECT_EQ(f.cache.num_pages(), 4);
}

TEST(PrefixCache, SplitsOnlyAtPages) {
  Fixture f(8);
  f.serve({1, 2, 3, 4});
  EXPECT_EQ(f.serve({1, 2, 3, 5}), 2) << "half a page in common is not shared";
  EXPECT_EQ(f.serve({1, 9, 3, 4}), 0);
}

TEST(PrefixCache, NeverEvictsWhatASequenceHolds) {
  Fixture f(4);
  f.serve({1, 1, 2, 2, 3, 3});
  PageList list;
  f.cache.match("", std::vector<int32_t>{1, 1, 2, 2}, {&list, 1});
  for (const PageIndex page : list.pages) f.pool.hold(page);
  EXPECT_EQ(f.cache.evict(100), 1);
  EXPECT_EQ(f.known({1, 1, 2, 2, 3, 3}), 4);
  for (const PageIndex page : list.pages) f.pool.release(page);
  EXPECT_EQ(f.cache.evict(100), 2);
  EXPECT_EQ(f.pool.num_free(), 4);
  EXPECT_EQ(f.cache.num_nodes(), 0);
}

TEST(PrefixCache, ShowsWhatIsInFlightAndForgetsWhatIsAbandoned) {
  Fixture f(8);
  const std::vector<int32_t> text = {1, 1, 2, 2, 3, 3};
  PageList list;
  for (int i = 0; i < 3; ++i) list.pages.push_back(*f.pool.allocate());
  f.cache.insert("", text, {&list, 1}, 0, kWriter);
  PrefixMatch found = f.cache.peek("", text);
  EXPECT_EQ(found.ready_tokens, 0);
  EXPECT_EQ(found.known_tokens, 6);
  EXPECT_TRUE(found.in_flight());
  f.cache.publish("", text, {&list, 1}, 3, kWriter);
  EXPECT_EQ(f.cache.peek("", text).ready_tokens, 2) << "half a page is not ready";
  EXPECT_FALSE(f.cache.peek("", std::vector<int32_t>{1, 1, 9, 9}).in_flight());
  f.cache.abandon("", text, kWriter);
  found = f.cache.peek("", text);
  EXPECT_EQ(found.known_tokens, 2);
  EXPECT_FALSE(found.in_flight());
  f.check();
  for (const PageIndex page : list.pages) f.pool.release(page);
  EXPECT_EQ(f.pool.num_free(), 7);
}

TEST(PrefixCache, ASplitKeepsWhatIsInFlightApartFromWhatIsReady) {
  Fixture f(8);
  const std::vector<int32_t> text = {1, 1, 2, 2, 3, 3};
  PageList list;
  for (int i = 0; i < 3; ++i) list.pages.push_back(*f.pool.allocate());
  f.cache.insert("", text, {&list, 1}, 0, kWriter);
  f.cache.publish("", text, {&list, 1}, 2, kWriter);
  EXPECT_EQ(f.serve({1, 1, 9, 9}), 2);  // splits after the first page
  f.check();
  EXPECT_EQ(f.cache.peek("", text).ready_tokens, 2);
  f.cache.publish("", text, {&list, 1}, 6, kWriter);
  EXPECT_EQ(f.cache.peek("", text).ready_tokens, 6);
  for (const PageIndex page : list.pages) f.pool.release(page);
}

// Random texts over a small alphabet, served, held and let go in any order, against a plain list of what was
// computed: whatever the cache says matches must be the pages of exactly those tokens.
RC_GTEST_PROP(PrefixCache, EveryMatchIsThePagesOfExactlyTheseTokens, ()) {
  Fixture f(12);
  std::map<PageIndex, std::vector<int32_t>> content;  // page -> all tokens up to its end
  std::vector<std::vector<PageIndex>> running;
  const int steps = *rc::gen::inRange(1, 60);
  for (int step = 0; step < steps; ++step) {
    const auto text = *rc::gen::container<std::vector<int32_t>>(8, rc::gen::inRange(0, 2));
    const int action = *rc::gen::inRange(0, 4);
    if (action == 0 && !running.empty()) {
      for (const PageIndex page : running.front()) f.pool.release(page);
      running.erase(running.begin());
    } else if (action == 1) {
      f.cache.evict(*rc::gen::inRange(0, 4));
    } else {
      PageList list;
      std::vector<PageIndex>& pages = list.pages;
      const auto found = f.cache.match("", text, {&list, 1});
      RC_ASSERT(found.ready_tokens == std::ssize(pages) * kWidth);
      for (size_t i = 0; i < pages.size(); ++i)
        RC_ASSERT(content[pages[i]] == std::vector<int32_t>(text.begin(),
                                           text.begin() + static_cast<ptrdiff_t>((i + 1) * kWidth)));
      for (const PageIndex page : pages) f.pool.hold(page);
      const int64_t missing = 4 - std::ssize(pages);
      if (missing > f.pool.num_free()) f.cache.evict(missing - f.pool.num_free());
      while (std::ssize(pages) < 4) {
        const auto page = f.pool.allocate();
        if (!page) break;
        pages.push_back(*page);
        content[*page].assign(text.begin(), text.begin() + std::ssize(pages) * kWidth);
      }
      f.cache.insert("", std::span(text).first(pages.size() * kWidth), {&list, 1}, std::ssize(text));
      running.push_back(pages);
    }
    f.check();
    RC_ASSERT(f.pool.use().idle <= f.cache.num_pages());
  }
  for (const auto& pages : running)
    for (const PageIndex page : pages) f.pool.release(page);
  RC_ASSERT(f.pool.use().idle == f.cache.num_pages());
  f.cache.evict(12);
  RC_ASSERT(f.pool.num_free() == 12);
}

}  // namespace
}  // namespace cheetah
