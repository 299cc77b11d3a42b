// SPDX-License-Identifier: MIT
#include "base/statistics.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

TEST(Statistics, MedianAndQuantilesInterpolate) {
  const std::vector<double> samples = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(median(samples), 2.5);
  EXPECT_DOUBLE_EQ(quantile(samples, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(samples, 1), 4);
  EXPECT_DOUBLE_EQ(median({}), 0);
}

TEST(Statistics, SpreadOfEqualSamplesIsZero) {
  const std::vector<double> samples = {5, 5, 5};
  EXPECT_DOUBLE_EQ(relative_spread(samples), 0);
}

}  // namespace
}  // namespace cheetah
