// SPDX-License-Identifier: MIT
#include "cluster/policy/worth.h"

#include <gtest/gtest.h>

namespace cheetah::cluster {
namespace {

void measure(WorthTable& table, Way way, double ttft_ms, int times, const WorthConfig& config = {}) {
  for (int i = 0; i < times; ++i)
    table.observe({.effective_tokens = 1000, .way = way, .ttft_ms = ttft_ms, .tpot_ms = 10}, config);
}

TEST(Worth, BucketsGrowByFour) {
  EXPECT_EQ(worth_bucket(0), 0);
  EXPECT_EQ(worth_bucket(63), 0);
  EXPECT_EQ(worth_bucket(64), 1);
  EXPECT_EQ(worth_bucket(255), 1);
  EXPECT_EQ(worth_bucket(256), 2);
  EXPECT_EQ(worth_bucket(int64_t{1} << 40), kWorthBuckets - 1);
  for (int i = 0; i < kWorthBuckets; ++i) EXPECT_EQ(worth_bucket(bucket_low(i)), i);
}

TEST(Worth, FallsBackWhenDisaggregationLosesAndSaysWhy) {
  WorthTable table;
  const WorthConfig config{.explore = 0};
  EXPECT_TRUE(table.ask(1000, config).disaggregate);
  measure(table, Way::kDisaggregated, 300, 8, config);
  measure(table, Way::kAggregated, 200, 7, config);
  EXPECT_TRUE(table.ask(1000, config).disaggregate);  // too few yet
  measure(table, Way::kAggregated, 200, 1, config);
  EXPECT_FALSE(table.ask(1000, config).disaggregate);
  EXPECT_TRUE(table.ask(10'000, config).disaggregate);  // other lengths are judged by themselves
  EXPECT_NE(table.why(worth_bucket(1000)).find("disaggregation loses"), std::string::npos);
}

TEST(Worth, ChangesOverOnlyByAMargin) {
  WorthTable table;
  const WorthConfig config{.explore = 0, .margin = 0.1};
  measure(table, Way::kDisaggregated, 300, 100, config);
  measure(table, Way::kAggregated, 290, 100, config);
  EXPECT_TRUE(table.ask(1000, config).disaggregate);
  measure(table, Way::kAggregated, 200, 100, config);
  EXPECT_FALSE(table.ask(1000, config).disaggregate);
  measure(table, Way::kDisaggregated, 195, 100, config);
  EXPECT_FALSE(table.ask(1000, config).disaggregate);
  measure(table, Way::kDisaggregated, 100, 100, config);
  EXPECT_TRUE(table.ask(1000, config).disaggregate);
}

TEST(Worth, ExploresTheOtherWayInItsShare) {
  WorthTable table;
  const WorthConfig config{.explore = 0.1};
  int others = 0;
  for (int i = 0; i < 1000; ++i) others += table.ask(1000, config).disaggregate ? 0 : 1;
  EXPECT_EQ(others, 100);
}

TEST(Worth, IsNotAskedWhenTurnedOff) {
  WorthTable table;
  const WorthConfig off{.enabled = false};
  measure(table, Way::kDisaggregated, 300, 50, off);
  measure(table, Way::kAggregated, 20, 50, off);
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(table.ask(1000, off).disaggregate);
}

}  // namespace
}  // namespace cheetah::cluster
