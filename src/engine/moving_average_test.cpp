// SPDX-License-Identifier: MIT
#include "engine/moving_average.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

TEST(MovingAverage, FollowsWhatChanges) {
  double average = 0;
  average_in(average, 100, 0.2);
  EXPECT_EQ(average, 100) << "the first is all there is";
  for (int i = 0; i < 30; ++i) average_in(average, 200, 0.2);
  EXPECT_NEAR(average, 200, 1);
  for (int i = 0; i < 60; ++i) average_in(average, 10, 0.2);
  EXPECT_NEAR(average, 10, 1);
}

TEST(MovingAverage, OneStandstillIsNoTrend) {
  double average = 100;
  average_in(average, 1e6, 0.2);
  EXPECT_LT(average, 200);
  for (int i = 0; i < 10; ++i) average_in(average, 100, 0.2);
  EXPECT_NEAR(average, 100, 10);
}

TEST(MovingAverage, AThousandTimesSlowerIsBelievedWhenItStays) {
  double average = 100;
  int steps = 0;
  for (; average < 50'000 && steps < 100; ++steps) average_in(average, 100'000, 0.2);
  EXPECT_LE(steps, 20);
}

}  // namespace
}  // namespace cheetah
