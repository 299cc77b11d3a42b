// SPDX-License-Identifier: MIT
#include "engine/speculate/draft_lookup.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace cheetah {
namespace {

using Text = std::vector<int32_t>;

TEST(DraftLookup, ReadsOnAfterTheLongestMatch) {
  DraftLookup lookup;
  Text draft;
  //                     1 2 3 → 4 5      2 3 → 9        1 2 3 → ?
  const Text text = {7, 1, 2, 3, 4, 5, 8, 2, 3, 9, 9, 6, 1, 2, 3};
  EXPECT_EQ(lookup.propose(text, 3, draft), 3);
  EXPECT_EQ(draft, (Text{4, 5, 8}));
}

TEST(DraftLookup, OfEqualMatchesTakesTheNewest) {
  DraftLookup lookup;
  Text draft;
  EXPECT_EQ(lookup.propose(Text{1, 2, 3, 0, 1, 2, 4, 5, 1, 2}, 1, draft), 2);
  EXPECT_EQ(draft, (Text{4}));
}

TEST(DraftLookup, ARepetitionGoesOnBeyondTheTextsEnd) {
  DraftLookup lookup;
  Text draft;
  EXPECT_EQ(lookup.propose(Text{1, 2, 3, 1, 2, 3, 1, 2}, 7, draft), 5);
  EXPECT_EQ(draft, (Text{3, 1, 2, 3, 1, 2, 3}));
}

TEST(DraftLookup, FindsNothingInShortOrFreshText) {
  DraftLookup lookup;
  Text draft;
  EXPECT_EQ(lookup.propose({}, 4, draft), 0);
  EXPECT_EQ(lookup.propose(Text{1, 2}, 4, draft), 0);
  EXPECT_EQ(lookup.propose(Text{1, 2, 3, 4, 5}, 4, draft), 0);
  EXPECT_EQ(lookup.propose(Text{1, 2, 3, 4, 5, 1, 2}, 0, draft), 0);
  EXPECT_TRUE(draft.empty());
}

// The slow twin: every earlier place, newest first, by comparing.
int64_t longest_match(const Text& text, int64_t newest_tried) {
  int64_t best = 0;
  int64_t tried = 0;
  const auto last = std::ssize(text) - 1;
  for (int64_t end = last - 1; end >= 1 && tried < newest_tried; --end) {
    const auto at = [&](int64_t i) { return text[static_cast<size_t>(i)]; };
    if (at(end) != at(last) || at(end - 1) != at(last - 1)) continue;
    ++tried;
    int64_t length = 0;
    while (length < DraftLookup::kLongestMatch && length <= end && at(end - length) == at(last - length))
      ++length;
    best = std::max(best, length);
  }
  return best;
}

TEST(DraftLookup, FindsWhatAFullSearchFindsAsTheTextGrows) {
  Philox random(1);
  for (const uint32_t alphabet : {2u, 5u, 40u}) {
    DraftLookup lookup;
    Text text, draft;
    for (int i = 0; i < 3000; ++i) {
      text.push_back(static_cast<int32_t>(random.next_u32() % alphabet));
      if (i % 3 != 0) continue;  // several tokens may come between two calls
      draft.clear();
      const int64_t found = lookup.propose(text, 5, draft);
      // Different pairs may share a chain of the index, so it may try fewer than sixteen of the same pair.
      if (alphabet == 2) {
        EXPECT_LE(found, longest_match(text, 16));
      } else if (const int64_t expected = longest_match(text, 4); expected >= DraftLookup::kLeastMatch) {
        EXPECT_GE(found, expected);
      }
      EXPECT_EQ(draft.size(), found > 0 ? 5u : 0u);
    }
  }
}

TEST(DraftLookup, ALongTextIsLookedUpWithinTheWindowAlone) {
  DraftLookup lookup;
  Text text, draft;
  for (int32_t i = 0; i < 100000; ++i) text.push_back(i);
  text.insert(text.end(), {10, 11, 12});
  EXPECT_EQ(lookup.propose(text, 2, draft), 0) << "too far back";
  text.insert(text.end(), {99000, 99001, 99002});
  EXPECT_EQ(lookup.propose(text, 2, draft), 3);
  EXPECT_EQ(draft, (Text{99003, 99004}));
}

}  // namespace
}  // namespace cheetah
