// SPDX-License-Identifier: MIT
#include "cluster/queue/job_table.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

namespace cheetah::cluster {
namespace {

using std::chrono::seconds;
constexpr Time kStart{};

TEST(JobTable, ALateAckOfATimedOutDeliveryDoesNotTakeTheJobFromItsNewHolder) {
  JobTable table({.visibility = seconds(1)});
  table.push({"a", "x", 0}, kStart);
  const auto first = table.pull(kStart);
  const auto second = table.pull(kStart + seconds(2));
  ASSERT_TRUE(first && second);
  table.ack(first->tag);
  EXPECT_EQ(table.num_in_flight(), 1);
  table.ack(second->tag);
  EXPECT_EQ(table.num_jobs(), 0);
}

TEST(JobTable, IdsAreForgottenAfterTheWindowAndJobsAfterTheirAge) {
  JobTable table({.max_age = seconds(10), .dedup_window = seconds(5)});
  EXPECT_EQ(table.push({"a", "x", 0}, kStart), PushResult::kQueued);
  EXPECT_EQ(table.push({"a", "x", 0}, kStart + seconds(4)), PushResult::kDuplicate);
  EXPECT_EQ(table.push({"a", "x", 0}, kStart + seconds(5)), PushResult::kQueued);
  EXPECT_TRUE(table.pull(kStart + seconds(9)));
  EXPECT_EQ(table.num_jobs(), 2);
  EXPECT_TRUE(table.pull(kStart + seconds(12)));
  EXPECT_EQ(table.num_jobs(), 1);
  EXPECT_FALSE(table.pull(kStart + seconds(15)));
  EXPECT_EQ(table.num_jobs(), 0);
  EXPECT_EQ(table.num_in_flight(), 0);
}

TEST(JobTable, EveryJobIsHandedOutUntilItIsAcknowledgedWhateverIsDone) {
  EXPECT_TRUE(rc::check([](const std::vector<std::tuple<uint8_t, uint8_t>>& steps) {
    JobTable table({.visibility = seconds(5), .max_age = std::chrono::hours(10), .max_deliveries = 1 << 30});
    std::vector<DeliveryTag> tags{DeliveryTag(12345)};
    Time now = kStart;
    int64_t pushed = 0, next_id = 0;
    for (const auto& [what, number] : steps) {
      now += seconds(number % 4);
      const DeliveryTag tag = tags[number % tags.size()];
      if (what % 5 == 0) {
        table.push({std::to_string(next_id++), "x", number % kNumPriorities}, now);
        ++pushed;
      } else if (what % 5 == 1) {
        if (const auto delivery = table.pull(now)) tags.push_back(delivery->tag);
      } else if (what % 5 == 2) {
        const int64_t before = table.num_jobs();
        table.ack(tag);
        pushed -= before - table.num_jobs();
      } else if (what % 5 == 3) {
        table.nack(tag, now);
      } else {
        table.extend(tag, now);
      }
      RC_ASSERT(table.num_jobs() == pushed);
    }
    now += seconds(6);
    while (const auto delivery = table.pull(now)) {
      table.ack(delivery->tag);
      --pushed;
    }
    RC_ASSERT(pushed == 0);
  }));
}

}  // namespace
}  // namespace cheetah::cluster
