// SPDX-License-Identifier: MIT
#include "base/published.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace cheetah {
namespace {

TEST(Published, SwapsStorageSoThatTheWriterAllocatesNothing) {
  Published<std::vector<int>> published;
  std::vector<int> next = {1, 2, 3};
  const int* const storage = next.data();
  published.swap_in(next);
  EXPECT_TRUE(next.empty());
  EXPECT_EQ(published.copy(), (std::vector<int>{1, 2, 3}));
  published.swap_in(next);
  EXPECT_EQ(next.data(), storage);
}

TEST(Published, ReadersSeeWholeValues) {
  Published<std::vector<int>> published(std::vector<int>(100, 0));
  std::thread writer([&] {
    std::vector<int> next;
    for (int i = 1; i <= 2000; ++i) {
      next.assign(100, i);
      published.swap_in(next);
    }
  });
  int last = 0;
  while (last < 2000) {
    const std::vector<int> seen = published.copy();
    for (const int number : seen) ASSERT_EQ(number, seen.front());
    ASSERT_GE(seen.front(), last);
    last = seen.front();
  }
  writer.join();
}

TEST(Published, LendsItsValue) {
  Published<int> published(1);
  published.with([](int& value) { value += 4; });
  EXPECT_EQ(published.with([](const int& value) { return value; }), 5);
}

}  // namespace
}  // namespace cheetah
