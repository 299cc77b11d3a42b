// SPDX-License-Identifier: MIT
#include "serve/queue_limit.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

TEST(Admission, TakesRequestsUntilTheEngineIsFull) {
  EXPECT_FALSE(refused_for_s({.in_flight = 9, .most = 10}, 1));
  EXPECT_TRUE(refused_for_s({.in_flight = 10, .most = 10}, 1));
  EXPECT_TRUE(refused_for_s({.in_flight = 8, .most = 10}, 3));
}

TEST(Admission, AsksToComeBackWhenATenthOfTheWorkIsDone) {
  EXPECT_EQ(retry_after_s({.pending_tokens = 10'000, .drain_tokens_per_s = 100}), 10);
  EXPECT_EQ(retry_after_s({.pending_tokens = 10, .drain_tokens_per_s = 100}), 1);
  EXPECT_EQ(retry_after_s({.pending_tokens = 1'000'000'000, .drain_tokens_per_s = 1}), 60);
  EXPECT_EQ(retry_after_s({.pending_tokens = 1000}), 1);  // nothing has drained yet
}

}  // namespace
}  // namespace cheetah
