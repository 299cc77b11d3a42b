// SPDX-License-Identifier: MIT
// Many workers lost at once, a router that stood still, and what the registry says about workers.
#include <gtest/gtest.h>

#include "cluster/core/router_probe.h"

namespace cheetah::cluster {
namespace {

class RouterLosses : public testing::Test {
 protected:
  LeastLoaded policy;
  Router router{policy};
};

// Six workers are lost before they say that they have the request: that is bad luck, and no reason to give up
// while a seventh lives.
TEST_F(RouterLosses, AWorkerThatNeverHadTheRequestDoesNotCountAgainstIt) {
  std::vector<WorkerId> left;
  for (uint64_t id = 0x100; id < 0x107; ++id) {
    router.join(WorkerId{id});
    left.push_back(WorkerId{id});
  }
  router.ask();
  int attempts = 0;
  while (left.size() > 1) {
    auto sent = router.sent<Generate>();
    for (int i = 0; i < 100 && sent.empty(); ++i) {
      router.pass_with(left, milliseconds(200));
      sent = router.sent<Generate>();
    }
    ASSERT_EQ(sent.size(), 1u) << attempts;
    std::erase(left, sent[0].first);
    ++attempts;
    router.tell(PeerDown{sent[0].first});
    ASSERT_EQ(router.ends(), 0) << attempts;
  }
  EXPECT_EQ(attempts, 6);
}

TEST_F(RouterLosses, ARequestThatKillsItsWorkersIsGivenUp) {
  for (uint64_t id = 0x100; id < 0x108; ++id) router.join(WorkerId{id});
  router.ask();
  for (uint32_t attempt = 1; attempt <= 4; ++attempt) {
    ASSERT_EQ(router.sent<Generate>().size(), 1u) << attempt;
    const WorkerId at = router.sent<Generate>()[0].first;
    router.hear(at, ProbeAnswer{key_of(attempt), 0});
    router.tell(PeerDown{at});
  }
  EXPECT_EQ(router.ends(), 1);
  EXPECT_EQ(router.counted(Counter::kMigrationLimit), 1);
}

// Its workers cut their links while it slept; it reads that one link at a time.
TEST_F(RouterLosses, AfterStandingStillItReadsAllNewsOfLinksBeforeItPlacesAnything) {
  for (uint64_t id = 0x100; id < 0x106; ++id) router.join(WorkerId{id});
  router.ask();
  const WorkerId at = router.sent<Generate>().at(0).first;
  router.token(at, 1, 0, 0, event_of({11}));
  router.now += seconds(5);
  router.tell(PeerDown{at});
  EXPECT_TRUE(router.sent<Generate>().empty());
  for (uint64_t id = 0x100; id < 0x105; ++id) {
    if (WorkerId{id} == at) continue;
    router.tell(PeerDown{WorkerId{id}});
    EXPECT_TRUE(router.sent<Generate>().empty()) << id;
  }
  router.pass(milliseconds(150));
  const auto again = router.sent<Generate>();
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].first, WorkerId{0x105});
}

TEST_F(RouterLosses, WhatAWorkerSaysWinsOverTheRegistry) {
  router.join(kDecodeA);
  WorkerDescriptor forged = ready_worker(kDecodeA, Role::kDecode, uint64_t{1} << 60);
  forged.state = WorkerState::kDraining;
  router.tell(RegistryPut{forged});
  router.ask();
  EXPECT_EQ(router.sent<Generate>().size(), 1u);
  Router late(policy);
  late.tell(RegistryPut{forged});
  late.join(kDecodeA);
  late.ask();
  EXPECT_EQ(late.sent<Generate>().size(), 1u) << "also where the registry was first";
}

}  // namespace
}  // namespace cheetah::cluster
