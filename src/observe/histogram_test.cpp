// SPDX-License-Identifier: MIT
#include "observe/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace cheetah {
namespace {

TEST(Histogram, PutsAValueInTheFirstBucketWhoseBoundItDoesNotPass) {
  Histogram histogram({1, 2, 4});
  for (const double value : {0.5, 1.0, 1.5, 4.0, 9.0}) histogram.observe(value);
  EXPECT_EQ(histogram.counts, (std::vector<uint64_t>{2, 1, 1, 1}));
  EXPECT_EQ(histogram.count, 5u);
  EXPECT_DOUBLE_EQ(histogram.sum, 16.0);
}

TEST(Histogram, BoundsAscend) {
  for (const auto& bounds : {latency_bounds(), token_bounds(8192)})
    EXPECT_TRUE(std::is_sorted(bounds.begin(), bounds.end()));
}

}  // namespace
}  // namespace cheetah
