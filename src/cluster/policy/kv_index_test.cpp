// SPDX-License-Identifier: MIT
#include "cluster/policy/kv_index.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <set>

namespace cheetah::cluster {
namespace {

constexpr WorkerId kA{1}, kB{2};
KvChange stored(BlockHash block) { return {KvChange::Kind::kStored, block}; }
KvChange removed(BlockHash block) { return {KvChange::Kind::kRemoved, block}; }
const std::vector<BlockHash> kChain = {10, 11, 12, 13};

TEST(KvIndex, MatchesTheLeadingBlocksOfAChain) {
  KvIndex index;
  index.apply(kA, 0, std::vector{stored(10), stored(11), stored(13)});
  index.apply(kB, 0, std::vector{stored(10)});
  EXPECT_EQ(index.matched_blocks(kA, kChain), 2);
  EXPECT_EQ(index.matches(kChain, 16), (std::vector<KvMatch>{{kA, 32}, {kB, 16}}));
  index.apply(kA, 3, std::vector{removed(10)});
  EXPECT_EQ(index.matched_blocks(kA, kChain), 0);
}

TEST(KvIndex, EntriesDieWithTheWorker) {
  KvIndex index;
  index.apply(kA, 0, std::vector{stored(10)});
  index.remove(kA);
  EXPECT_TRUE(index.matches(kChain, 16).empty());
  EXPECT_EQ(index.num_blocks(), 0);
}

TEST(KvIndex, AGapMakesAWorkerUnsureUntilItToldEverythingAgain) {
  KvIndex index;
  index.apply(kA, 0, std::vector{stored(10), stored(11)});
  index.apply(kA, 3, std::vector{stored(12)});
  index.apply(kA, 4, {});
  EXPECT_FALSE(index.sure(kA));
  EXPECT_EQ(index.unsure(), std::vector{kA});
  EXPECT_EQ(index.matched_blocks(kA, kChain), 0);
  index.resync(kA, 4, std::vector<BlockHash>{10, 12});
  EXPECT_TRUE(index.sure(kA));
  EXPECT_EQ(index.matched_blocks(kA, kChain), 1);
}

TEST(KvIndex, WhatCameAfterAGapIsBelieved) {
  KvIndex index;
  index.apply(kA, 7, std::vector{stored(10), stored(11)});
  EXPECT_FALSE(index.sure(kA));
  EXPECT_EQ(index.matched_blocks(kA, kChain), 2);
  index.apply(kA, 9, std::vector{KvChange{KvChange::Kind::kCleared, 0}, stored(10)});
  EXPECT_TRUE(index.sure(kA));
  EXPECT_EQ(index.matched_blocks(kA, kChain), 1);
}

TEST(KvIndex, ChangesThatOvertakeTheResyncAreNotLost) {
  KvIndex index;
  index.apply(kA, 5, std::vector{stored(11)});
  index.apply(kA, 6, std::vector{stored(12)});
  index.resync(kA, 5, std::vector<BlockHash>{10});
  EXPECT_TRUE(index.sure(kA));
  EXPECT_EQ(index.matched_blocks(kA, kChain), 3);
}

TEST(KvIndex, AResyncOlderThanASecondGapLeavesTheWorkerUnsure) {
  KvIndex index;
  index.apply(kA, 5, std::vector{stored(11)});
  index.apply(kA, 9, std::vector{stored(12)});
  index.resync(kA, 6, std::vector<BlockHash>{10});
  EXPECT_FALSE(index.sure(kA));
}

TEST(KvIndex, WhatComesTwiceOrLateIsIgnored) {
  KvIndex index;
  index.apply(kA, 0, std::vector{stored(10), removed(10), stored(11)});
  index.apply(kA, 0, std::vector{stored(10)});
  EXPECT_EQ(index.num_blocks(), 1);
  index.apply(kA, 2, std::vector{stored(11), stored(10)});
  EXPECT_EQ(index.matched_blocks(kA, kChain), 2);
  index.resync(kA, 1, {});
  EXPECT_EQ(index.matched_blocks(kA, kChain), 2);
}

TEST(KvIndex, MemoryIsBounded) {
  KvIndex index(3);
  index.apply(kA, 0, std::vector{stored(10), stored(11)});
  index.apply(kB, 0, std::vector{stored(10), stored(11)});
  EXPECT_EQ(index.num_blocks(), 3);
  EXPECT_EQ(index.num_not_recorded(), 1);
  index.remove(kA);
  index.apply(kB, 2, std::vector{stored(12), stored(11)});
  EXPECT_EQ(index.matched_blocks(kB, kChain), 3);
}

// Whatever is lost, doubled or late.
TEST(KvIndex, IsNeverWrongAndCompleteWheneverItIsSure) {
  EXPECT_TRUE(rc::check([] {
    KvIndex index;
    std::set<BlockHash> truth;
    std::vector<KvChange> sent;
    const int steps = *rc::gen::inRange(1, 60);
    for (int i = 0; i < steps; ++i) {
      const auto block = static_cast<BlockHash>(*rc::gen::inRange(0, 6));
      const int what = *rc::gen::inRange(0, 10);
      const KvChange change = what < 6   ? stored(block)
                              : what < 9 ? removed(block)
                                         : KvChange{KvChange::Kind::kCleared, 0};
      sent.push_back(change);
      if (change.kind == KvChange::Kind::kStored) truth.insert(block);
      if (change.kind == KvChange::Kind::kRemoved) truth.erase(block);
      if (change.kind == KvChange::Kind::kCleared) truth.clear();
      const int fate = *rc::gen::inRange(0, 10);  // lost, an old part again, told everything, delivered
      if (fate == 0) continue;
      const auto from = static_cast<size_t>(*rc::gen::inRange<int64_t>(0, static_cast<int64_t>(sent.size())));
      if (fate == 1) index.apply(kA, from, std::span(sent).subspan(from));
      if (fate == 2) index.resync(kA, sent.size(), std::vector<BlockHash>(truth.begin(), truth.end()));
      if (fate > 2) index.apply(kA, sent.size() - 1, std::span(sent).last(1));
      index.check_invariants();
      // The last change was delivered: what is claimed is true, and complete if the index is sure.
      int64_t claimed = 0;
      for (BlockHash b = 0; b < 6; ++b) {
        const bool claims = index.matched_blocks(kA, std::vector{b}) == 1;
        claimed += claims ? 1 : 0;
        RC_ASSERT(!claims || truth.contains(b));
      }
      RC_ASSERT(!index.sure(kA) || claimed == static_cast<int64_t>(truth.size()));
    }
  }));
}

}  // namespace
}  // namespace cheetah::cluster
