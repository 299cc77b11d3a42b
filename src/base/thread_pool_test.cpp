// SPDX-License-Identifier: MIT
#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace cheetah {
namespace {

TEST(ThreadPool, RunsEveryWorkerOnce) {
  ThreadPool pool({.num_threads = 4});
  for (int round = 0; round < 200; ++round) {
    std::vector<int> calls(4, 0);
    pool.run([&](int worker) { calls[static_cast<size_t>(worker)]++; });
    EXPECT_EQ(calls, std::vector<int>(4, 1));
  }
}

TEST(ThreadPool, ParallelForVisitsEachIndexOnce) {
  ThreadPool pool({.num_threads = 3});
  for (const int64_t count : {0, 1, 7, 64, 1001}) {
    std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
    pool.parallel_for(count, 8, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) visits[static_cast<size_t>(i)]++;
    });
    for (const auto& visit : visits) EXPECT_EQ(visit.load(), 1);
  }
}

TEST(ThreadPool, WakesWorkersThatWentToSleep) {
  ThreadPool pool({.num_threads = 2});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  std::atomic<int> sum{0};
  pool.run([&](int worker) { sum += worker + 1; });
  EXPECT_EQ(sum.load(), 3);
}

TEST(ThreadPool, KeepsManyShortJobsOfBothKindsApart) {
  ThreadPool pool(
      {.num_threads = 5, .pin = false});  // more threads than cores here: late workers are the rule
  for (int round = 0; round < 3000; ++round) {
    std::vector<int> visits(11, 0);
    pool.parallel_for(11, 1, [&](int64_t begin, int64_t, int) { visits[static_cast<size_t>(begin)]++; });
    ASSERT_EQ(visits, std::vector<int>(11, 1));
    if (round % 10) continue;
    std::vector<int> calls(5, 0);
    pool.run([&](int worker) { calls[static_cast<size_t>(worker)]++; });
    ASSERT_EQ(calls, std::vector<int>(5, 1));
  }
}

TEST(ThreadPool, FindsAtLeastOneCore) { EXPECT_GE(usable_cores().size(), 1u); }

}  // namespace
}  // namespace cheetah
