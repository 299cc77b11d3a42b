#include "cluster/queue/job_book.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>

namespace cheetah::cluster {
namespace {

using std::chrono::seconds;
constexpr Time kStart{};

TEST(JobBook, ALateAckOfATimedOutDeliveryDoesNotTakeTheJobFromItsNewHolder) {
  JobBook book({.visibility = seconds(1)});
  book.push({"a", "x", 0}, kStart);
  const auto first = book.pull(kStart);
  const auto second = book.pull(kStart + seconds(2));
  ASSERT_TRUE(first && second);
  book.ack(first->tag);
  EXPECT_EQ(book.num_in_flight(), 1);
  book.ack(second->tag);
  EXPECT_EQ(book.num_jobs(), 0);
}

TEST(JobBook, IdsAreForgottenAfterTheWindowAndJobsAfterTheirAge) {
  JobBook book({.max_age = seconds(10), .dedup_window = seconds(5)});
  EXPECT_EQ(book.push({"a", "x", 0}, kStart), PushResult::kQueued);
  EXPECT_EQ(book.push({"a", "x", 0}, kStart + seconds(4)), PushResult::kDuplicate);
  EXPECT_EQ(book.push({"a", "x", 0}, kStart + seconds(5)), PushResult::kQueued);
  EXPECT_TRUE(book.pull(kStart + seconds(9)));
  EXPECT_EQ(book.num_jobs(), 2);
  EXPECT_TRUE(book.pull(kStart + seconds(12)));
  EXPECT_EQ(book.num_jobs(), 1);
  EXPECT_FALSE(book.pull(kStart + seconds(15)));
  EXPECT_EQ(book.num_jobs(), 0);
  EXPECT_EQ(book.num_in_flight(), 0);
}

TEST(JobBook, EveryJobIsHandedOutUntilItIsAcknowledgedWhateverIsDone) {
  EXPECT_TRUE(rc::check([](const std::vector<std::tuple<uint8_t, uint8_t>>& steps) {
    JobBook book({.visibility = seconds(5), .max_age = std::chrono::hours(10), .max_deliveries = 1 << 30});
    std::vector<DeliveryTag> tags{DeliveryTag(12345)};
    Time now = kStart;
    int64_t pushed = 0, next_id = 0;
    for (const auto& [what, number] : steps) {
      now += seconds(number % 4);
      const DeliveryTag tag = tags[number % tags.size()];
      if (what % 5 == 0) {
        book.push({std::to_string(next_id++), "x", number % kNumPriorities}, now);
        ++pushed;
      } else if (what % 5 == 1) {
        if (const auto delivery = book.pull(now)) tags.push_back(delivery->tag);
      } else if (what % 5 == 2) {
        const int64_t before = book.num_jobs();
        book.ack(tag);
        pushed -= before - book.num_jobs();
      } else if (what % 5 == 3) {
        book.nack(tag, now);
      } else {
        book.extend(tag, now);
      }
      RC_ASSERT(book.num_jobs() == pushed);
    }
    now += seconds(6);
    while (const auto delivery = book.pull(now)) book.ack(delivery->tag), --pushed;
    RC_ASSERT(pushed == 0);
  }));
}

}  // namespace
}  // namespace cheetah::cluster
