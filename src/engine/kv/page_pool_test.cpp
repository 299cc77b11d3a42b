// SPDX-License-Identifier: MIT
#include "engine/kv/page_pool.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

namespace cheetah {
namespace {

TEST(PagePool, GivesEachPageOnceAndThenNone) {
  PagePool pool(3, 16);
  std::map<PageIndex, int> seen;
  for (int i = 0; i < 3; ++i) ++seen[pool.allocate().value()];
  EXPECT_EQ(seen.size(), 3u);
  EXPECT_FALSE(pool.allocate());
  pool.release(1);
  EXPECT_EQ(pool.allocate(), 1);
}

TEST(PagePool, CopiesOnWriteOnlyWhatIsShared) {
  PagePool pool(2, 16);
  const PageIndex page = *pool.allocate();
  EXPECT_FALSE(pool.make_writable(page)->copy_needed);
  pool.hold(page);
  EXPECT_EQ(pool.use().shared, 1);
  const auto copy = pool.make_writable(page).value();
  EXPECT_TRUE(copy.copy_needed);
  EXPECT_NE(copy.page, page);
  EXPECT_EQ(pool.holders(page), 1);
  pool.hold(page);
  EXPECT_FALSE(pool.make_writable(page)) << "no page is left for the copy";
}

TEST(PagePool, FragmentationIsTheShareOfEmptyPlaces) {
  EXPECT_DOUBLE_EQ(fragmentation(0, 16, 0), 0);
  EXPECT_DOUBLE_EQ(fragmentation(2, 16, 32), 0);
  EXPECT_DOUBLE_EQ(fragmentation(2, 16, 24), 0.25);
}

RC_GTEST_PROP(PagePool, AgreesWithAPlainCountAfterAnyOperations, ()) {
  const auto operations = *rc::gen::container<std::vector<std::pair<int, int>>>(
      rc::gen::pair(rc::gen::inRange(0, 4), rc::gen::inRange(0, 1000)));
  PagePool pool(5, 8);
  std::vector<PageIndex> held;  // one entry a holder
  for (const auto& [kind, pick] : operations) {
    const size_t at = held.empty() ? 0 : static_cast<size_t>(pick) % held.size();
    if (kind == 0) {
      if (const auto page = pool.allocate()) held.push_back(*page);
    } else if (!held.empty() && kind == 1) {
      pool.hold(held[at]);
      held.push_back(held[at]);
    } else if (!held.empty() && kind == 2) {
      pool.release(held[at]);
      held.erase(held.begin() + static_cast<ptrdiff_t>(at));
    } else if (!held.empty()) {
      if (const auto writable = pool.make_writable(held[at])) held[at] = writable->page;
    }
    pool.check_invariants();
    std::map<PageIndex, int32_t> counts;
    for (const PageIndex page : held) ++counts[page];
    for (const auto& [page, count] : counts) RC_ASSERT(pool.holders(page) == count);
    RC_ASSERT(pool.use().held() == static_cast<int64_t>(counts.size()));
  }
}

}  // namespace
}  // namespace cheetah
