// SPDX-License-Identifier: MIT
#include "quantize/estimate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/hash.h"

namespace cheetah {
namespace {

TEST(ClusterMean, IsTheMeanOverAllSamplesWhateverTheClustersSizes) {
  const std::vector<Cluster> clusters = {{.sum = 10, .count = 10}, {.sum = 9, .count = 3}};
  EXPECT_DOUBLE_EQ(cluster_mean(clusters).mean, 19.0 / 13.0);
}

TEST(ClusterMean, OneClusterHasNoIntervalAndNoneHasNoMean) {
  const std::vector<Cluster> one = {{.sum = 10, .count = 10}};
  EXPECT_FALSE(cluster_mean(one).interval);
  EXPECT_DOUBLE_EQ(cluster_mean({}).mean, 0);
}

TEST(ClusterMean, ItsIntervalHoldsTheTruthAboutNineteenTimesInTwenty) {
  SplitMix64 random(7);
  int held = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<Cluster> clusters;
    for (int c = 0; c < 12; ++c) {
      // Samples of a cluster share half of their deviation: they are not independent.
      const double shared = random.next_uniform() - 0.5;
      Cluster cluster;
      for (int i = 0; i < 8; ++i) cluster.sum += shared + random.next_uniform() - 0.5, ++cluster.count;
      clusters.push_back(cluster);
    }
    const Estimate estimate = cluster_mean(clusters);
    held += estimate.interval->low <= 0 && 0 <= estimate.interval->high;
  }
  EXPECT_GT(held, 1850);  // 0.95 * 2000 less five standard deviations
  EXPECT_LT(held, 1950);
}

TEST(StudentT, MatchesPublishedPoints) {
  EXPECT_NEAR(student_t(1), 12.706, 1e-3);
  EXPECT_NEAR(student_t(6), 2.4469, 2e-3);
  EXPECT_NEAR(student_t(30), 2.0423, 1e-4);
  EXPECT_NEAR(student_t(1000), 1.9623, 1e-4);
}

TEST(Share, StaysWithinNoughtAndOne) {
  EXPECT_NEAR(share(50, 100).interval->low, 0.4038, 1e-4);
  EXPECT_NEAR(share(50, 100).interval->high, 0.5962, 1e-4);
  EXPECT_DOUBLE_EQ(share(0, 10).interval->low, 0);
  EXPECT_DOUBLE_EQ(share(10, 10).interval->high, 1);
}

}  // namespace
}  // namespace cheetah
