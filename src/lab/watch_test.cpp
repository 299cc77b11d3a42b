// SPDX-License-Identifier: MIT
#include "lab/watch.h"

#include <gtest/gtest.h>

namespace cheetah::lab {
namespace {

TEST(Watch, ThrottlingAndMemoryErrorsAreNamed) {
  const GpuReading quiet{.known = true};
  EXPECT_TRUE(disturbances(quiet, quiet).empty());
  GpuReading loud = quiet;
  loud.throttle_bits = 0x4 | 0x40;
  loud.uncorrected_errors = 2;
  EXPECT_EQ(disturbances(quiet, loud).size(), 3u);
  EXPECT_TRUE(disturbances(GpuReading{}, loud).empty()) << "nothing is known of before";
}

TEST(Watch, OtherProcessesAreToldFromOurOwn) {
  const CpuReading before{.cores = 2};
  EXPECT_TRUE(disturbances(before, {.busy_s = 10, .own_s = 10, .wall_s = 5, .cores = 2}).empty());
  const auto found = disturbances(before, {.busy_s = 10, .own_s = 4, .wall_s = 5, .cores = 2});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0], "other processes used 1.2 of 2 cores");
}

TEST(Watch, TheCpusOwnTimeGrows) {
  const CpuReading before = read_cpu();
  EXPECT_GT(before.busy_s, 0);
  EXPECT_GE(before.cores, 1);
}

}  // namespace
}  // namespace cheetah::lab
