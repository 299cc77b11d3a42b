// SPDX-License-Identifier: MIT
#include "base/mailbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace cheetah {
namespace {

TEST(Mailbox, DeliversEveryMessageOfManySendersInEachSendersOrder) {
  Mailbox<std::pair<int, int>> box;
  constexpr int kSenders = 4, kEach = 1000;
  std::vector<std::jthread> senders;
  for (int sender = 0; sender < kSenders; ++sender)
    senders.emplace_back([&box, sender] {
      for (int i = 0; i < kEach; ++i) box.post({sender, i});
    });
  std::vector<int> next(kSenders, 0);
  std::vector<std::pair<int, int>> batch;
  for (int received = 0; received < kSenders * kEach;) {
    box.wait();
    box.take_all(batch);
    for (const auto& [sender, i] : batch) EXPECT_EQ(i, next[static_cast<size_t>(sender)]++);
    received += static_cast<int>(batch.size());
  }
}

TEST(Mailbox, WakesWaitersAndRefusesMessagesOnceClosed) {
  Mailbox<int> box;
  std::jthread closer([&box] { box.close(); });
  EXPECT_FALSE(box.wait());
  EXPECT_FALSE(box.post(1));
  EXPECT_TRUE(box.closed());
}

TEST(Mailbox, KeepsQuietMessagesForTheNextLookInOrderWithTheOthers) {
  Mailbox<int> box;
  std::vector<int> taken;
  EXPECT_TRUE(box.post_quietly(1));
  EXPECT_TRUE(box.post(2));
  EXPECT_TRUE(box.post_quietly(3));
  EXPECT_TRUE(box.wait());
  box.take_all(taken);
  EXPECT_EQ(taken, (std::vector<int>{1, 2, 3}));
  box.close();
  EXPECT_FALSE(box.post_quietly(4));
}

TEST(Mailbox, GivesUpWaitingWhenTheTimeIsUp) {
  Mailbox<int> box;
  EXPECT_FALSE(box.wait_until(std::chrono::steady_clock::now() + std::chrono::milliseconds(5)));
}

}  // namespace
}  // namespace cheetah
