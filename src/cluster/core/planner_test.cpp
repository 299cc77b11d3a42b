#include "cluster/core/planner.h"

#include <gtest/gtest.h>

namespace cheetah::cluster {
namespace {

constexpr auto kSecond = std::chrono::seconds(1);

class PlannerTest : public testing::Test {
 protected:
  PlannerTest() {
    for (uint64_t id = 1; id <= 4; ++id) {
      KnownWorker& worker = workers[WorkerId{id}];
      worker.descriptor.id = WorkerId{id};
      worker.descriptor.role = id <= 2 ? Role::kPrefill : Role::kDecode;
      worker.descriptor.state = WorkerState::kReady;
      worker.descriptor.max_sequences = 10;
      worker.linked = true;
      worker.load = {.prefill_us_per_token = 1000, .decode_step_us = 10'000};  // 1000 tokens/s each way
    }
  }
  // A second of traffic, then a look.
  const Planner::Plan& second_of(int64_t input, int64_t output, bool acts = true) {
    planner.came(input);
    planner.went(output);
    now += kSecond;
    planner.look(workers, 0, acts, now);
    return planner.plan();
  }

  static PlannerConfig quick() {
    PlannerConfig config;
    config.roles.dwell_ms = 5000;
    config.roles.cooldown_ms = 2000;
    config.roles.samples = 2;
    return config;
  }

  KnownWorkers workers;
  Time now{std::chrono::hours(1)};
  Planner planner{quick()};
};

TEST_F(PlannerTest, MovesADecodeWorkerWhenPromptsAreTheMostAndItHasDwelt) {
  int orders = 0;
  for (int i = 0; i < 20; ++i) {
    const Planner::Plan& plan = second_of(1900, 100);
    if (!plan.order) continue;
    ++orders;
    EXPECT_GE(i, 4) << "not before the dwell";
    EXPECT_EQ(workers.at(plan.order->first).descriptor.role, Role::kDecode);
    EXPECT_EQ(plan.order->second.role, Role::kPrefill);
    EXPECT_EQ(plan.order->second.epoch, 1u);
    WorkerDescriptor& moved = workers.at(plan.order->first).descriptor;
    moved.role = Role::kPrefill;
    moved.epoch = 1;
  }
  EXPECT_EQ(orders, 1) << "the last decode worker stays";
}

TEST_F(PlannerTest, LeavesABalancedClusterAlone) {
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(second_of(1000, 1000).order);
}

TEST_F(PlannerTest, OnlyWatchesWithoutTheSeat) {
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(second_of(1900, 100, false).order);
  EXPECT_NEAR(planner.plan().mix.input_tokens_per_s, 1900, 1);
  EXPECT_NEAR(planner.plan().mix.decode_tokens_per_s, 1000, 1);
}

TEST_F(PlannerTest, WaitsWhileAWorkerIsOnItsWayToAnotherRole) {
  workers.at(WorkerId{3}).descriptor.state = WorkerState::kDraining;
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(second_of(1900, 100).order);
}

}  // namespace
}  // namespace cheetah::cluster
