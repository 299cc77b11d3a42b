// SPDX-License-Identifier: MIT
#include "gpu/launch_log.h"

#include <gtest/gtest.h>

namespace cheetah::gpu {
namespace {

TEST(LaunchLog, TellsTheNewestLaunchFirst) {
  LaunchLog log;
  EXPECT_EQ(log.text(), "");
  log.add({.kernel = "first"});
  log.add({.kernel = "second",
      .grid = {2, 3, 1},
      .block = {128, 1, 1},
      .shared_bytes = 64,
      .numbers = {7, 9},
      .num_numbers = 2});
  EXPECT_EQ(log.text(),
      "second(7, 9) grid 2x3x1 block 128x1x1 shared 64\n"
      "first() grid 1x1x1 block 1x1x1 shared 0\n");
}

TEST(LaunchLog, KeepsOnlyTheLastLaunches) {
  LaunchLog log;
  log.add({.kernel = "forgotten"});
  for (size_t i = 0; i < LaunchLog::kept(); ++i) log.add({.kernel = "kept"});
  EXPECT_EQ(log.text().find("forgotten"), std::string::npos);
  EXPECT_EQ(log.count(), static_cast<int64_t>(LaunchLog::kept()) + 1);
}

}  // namespace
}  // namespace cheetah::gpu
