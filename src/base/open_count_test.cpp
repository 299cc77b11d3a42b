// SPDX-License-Identifier: MIT
#include "base/open_count.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace cheetah {
namespace {

TEST(OpenCount, AWaitEndsWithTheLastOneOrWithTheTime) {
  OpenCount open;
  EXPECT_TRUE(open.wait_for_none(SteadyClock::now()));
  open.add(3);
  open.remove();
  EXPECT_EQ(open, 2);
  EXPECT_FALSE(open.wait_for_none(SteadyClock::now() + std::chrono::milliseconds(5)));
  std::thread closer([&] { open.remove(2); });
  EXPECT_TRUE(open.wait_for_none(SteadyClock::now() + std::chrono::minutes(1)));
  closer.join();
}

TEST(OpenCount, NoWakeUpIsLost) {
  for (int round = 0; round < 200; ++round) {
    OpenCount open;
    open.add(4);
    std::vector<std::thread> closers;
    for (int i = 0; i < 4; ++i) closers.emplace_back([&] { open.remove(); });
    EXPECT_TRUE(open.wait_for_none(SteadyClock::now() + std::chrono::minutes(1)));
    for (std::thread& closer : closers) closer.join();
  }
}

}  // namespace
}  // namespace cheetah
