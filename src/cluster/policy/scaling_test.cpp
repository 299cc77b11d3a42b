// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "cluster/policy/autoscale.h"
#include "cluster/policy/roles.h"
#include "cluster/policy/sizing.h"

namespace cheetah::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr Time kStart{std::chrono::hours(1)};

class Autoscale : public testing::Test {
 protected:
  Autoscale() {
    config.samples_up = config.samples_down = 1, config.cooldown_up_ms = config.cooldown_down_ms = 0;
  }
  ScaleDecision decode(const PoolSample& sample) { return scale(sample, config.decode, config, now, state); }
  AutoscaleConfig config;
  PoolScaleState state;
  Time now = kStart;
};

TEST_F(Autoscale, GoesUpForAnyHighNumber) {
  EXPECT_EQ(decode({.replicas = 4, .queue_length = 16}).reason, ScaleReason::kQueueHigh);
  EXPECT_EQ(decode({.replicas = 4, .kv_usage = 0.75}).desired, 5);
  EXPECT_EQ(decode({.replicas = 4, .queue_length = 15.9, .kv_usage = 0.74}).reason, ScaleReason::kHold);
}

TEST_F(Autoscale, GoesDownOnlyWhenAllAreLow) {
  EXPECT_EQ(decode({.replicas = 4, .queue_length = 4, .kv_usage = 0.31}).desired, 4);
  const ScaleDecision down = decode({.replicas = 4, .queue_length = 4, .kv_usage = 0.3});
  EXPECT_EQ(down.desired, 3);
  EXPECT_EQ(down.reason, ScaleReason::kAllLow);
}

TEST_F(Autoscale, GoesUpByAsMuchAsTheWorstNumberAsksFor) {
  EXPECT_EQ(decode({.replicas = 10, .queue_length = 17}).desired, 11);
  EXPECT_EQ(decode({.replicas = 10, .queue_length = 160}).desired, 12);  // two at once at most
}

TEST_F(Autoscale, WaitsForSamplesInARowAndForTheCooldown) {
  config.samples_up = 2;
  config.cooldown_up_ms = 1000;
  const PoolSample high{.replicas = 4, .queue_length = 20}, middle{.replicas = 4, .queue_length = 10};
  EXPECT_EQ(decode(high).reason, ScaleReason::kWaitingForSamples);
  EXPECT_EQ(decode(middle).reason, ScaleReason::kHold);
  EXPECT_EQ(decode(high).reason, ScaleReason::kWaitingForSamples);
  EXPECT_EQ(decode(high).desired, 5);
  decode(high);
  EXPECT_EQ(decode(high).reason, ScaleReason::kCooldown);
  now += milliseconds(1000);
  EXPECT_EQ(decode(high).desired, 5);
}

TEST_F(Autoscale, CorrectsWhatLiesOutsideItsLimits) {
  EXPECT_EQ(decode({.replicas = 0}).desired, 1);
  EXPECT_EQ(decode({.replicas = 30, .queue_length = 99}).desired, 24);
  EXPECT_EQ(decode({.replicas = 24, .queue_length = 99}).desired, 24);
}

// A reader that looks once in a while must not miss it.
TEST_F(Autoscale, TheWishStandsThroughTheCooldown) {
  config.cooldown_up_ms = 30'000;
  EXPECT_EQ(decode({.replicas = 4, .queue_length = 20}).desired, 5);
  for (int i = 0; i < 29; ++i) {
    now += seconds(1);
    EXPECT_EQ(decode({.replicas = 4, .queue_length = 20}).desired, 5) << i;
    EXPECT_EQ(decode({.replicas = 4, .queue_length = 10}).desired, 5) << i;
  }
}

TEST_F(Autoscale, ACrashDoesNotLowerTheWish) {
  const auto middle = [](int64_t replicas) { return PoolSample{.replicas = replicas, .queue_length = 10}; };
  EXPECT_EQ(decode(middle(1)).desired, 1);
  EXPECT_EQ(decode(middle(4)).desired, 4) << "a router that starts sees them one by one";
  EXPECT_EQ(decode(middle(2)).desired, 4);
  EXPECT_EQ(decode(middle(0)).desired, 4);
  EXPECT_EQ(decode(middle(4)).desired, 4);
  EXPECT_EQ(decode({.replicas = 4, .queue_length = 1}).desired, 3);
  EXPECT_EQ(decode(middle(4)).desired, 3) << "those that are still there do not undo it";
  EXPECT_EQ(decode(middle(3)).desired, 3);
}

TEST(AutoscaleProperties, NeverLeavesItsLimits) {
  EXPECT_TRUE(rc::check([] {
    AutoscaleConfig config;
    config.prefill.min_replicas = *rc::gen::inRange(1, 4);
    config.prefill.max_replicas = config.prefill.min_replicas + *rc::gen::inRange(0, 8);
    config.samples_up = *rc::gen::inRange(1, 3);
    config.samples_down = *rc::gen::inRange(1, 3);
    config.cooldown_up_ms = config.cooldown_down_ms = *rc::gen::element(0, 2000);
    PoolScaleState state;
    int64_t replicas = *rc::gen::inRange(0, 14);
    Time now = kStart, changed = kStart;
    bool within = false;
    for (int i = 0; i < 100; ++i, now += seconds(1)) {
      const PoolSample sample{.replicas = replicas,
          .queue_length = static_cast<double>(*rc::gen::inRange(0, 20)),
          .utilization = *rc::gen::inRange(0, 100) / 100.0};
      const ScaleDecision decision = scale(sample, config.prefill, config, now, state);
      RC_ASSERT(
          decision.desired >= config.prefill.min_replicas && decision.desired <= config.prefill.max_replicas);
      if (decision.desired != replicas && within) {
        RC_ASSERT(now - changed >= milliseconds(config.cooldown_up_ms));
        changed = now;
      }
      if (!within) changed = kStart - std::chrono::hours(1);
      within = true;
      replicas = decision.desired;
    }
  }));
}

std::vector<FlipWorker> pool(int num_prefill, int num_decode) {
  std::vector<FlipWorker> workers;
  for (int i = 0; i < num_prefill + num_decode; ++i)
    workers.push_back({.id = static_cast<WorkerId>(i + 1),
        .role = i < num_prefill ? Role::kPrefill : Role::kDecode,
        .role_since = kStart});
  return workers;
}

// One prefill worker does 1000 tokens/s, one decode worker 100.
TrafficMix mix_of(double input, double output) {
  return {.input_tokens_per_s = input,
      .output_tokens_per_s = output,
      .prefill_tokens_per_s = 1000,
      .decode_tokens_per_s = 100};
}

class Roles : public testing::Test {
 protected:
  Roles() { config.samples = 1; }
  FlipDecision plan(const TrafficMix& mix) { return plan_flip(workers, mix, config, now, state); }
  std::vector<FlipWorker> workers = pool(2, 2);
  FlipConfig config;
  FlipState state;
  Time now = kStart + seconds(120);
};

TEST_F(Roles, ImbalanceComparesDemandByCapacity) {
  EXPECT_DOUBLE_EQ(imbalance(mix_of(1000, 100), 2, 2), 1);
  EXPECT_DOUBLE_EQ(imbalance(mix_of(2000, 100), 2, 2), 2);
  EXPECT_DOUBLE_EQ(imbalance(mix_of(1000, 100), 1, 3), 3);
  EXPECT_DOUBLE_EQ(imbalance({}, 2, 2), 1);
}

TEST_F(Roles, TheShortPoolGetsTheLeastBusyWorkerOfTheOther) {
  workers[2].active = 5;
  const FlipDecision decision = plan(mix_of(1900, 60));
  EXPECT_EQ(decision.reason, FlipReason::kPrefillShort);
  EXPECT_EQ(decision.to, Role::kPrefill);
  EXPECT_EQ(decision.worker, workers[3].id);
}

TEST_F(Roles, EveryReasonToStayHasItsCase) {
  EXPECT_EQ(plan(mix_of(1000, 100)).reason, FlipReason::kBalanced);
  EXPECT_EQ(plan(mix_of(500, 10)).reason, FlipReason::kIdle);
  EXPECT_EQ(plan({}).reason, FlipReason::kUnknown);
  EXPECT_EQ(plan(mix_of(1900, 150)).reason, FlipReason::kWouldNotHelp);  // decode would be over its capacity
  config.min_decode = 2;
  EXPECT_EQ(plan(mix_of(1900, 60)).reason, FlipReason::kAtMinimum);
  config.min_decode = 1;
  config.samples = 2;
  state = {};
  EXPECT_EQ(plan(mix_of(1900, 60)).reason, FlipReason::kWaitingForSamples);
  config.samples = 1;
  workers[0].state = WorkerState::kDraining;
  EXPECT_EQ(plan(mix_of(1900, 60)).reason, FlipReason::kFlipping);
  workers[0].state = WorkerState::kReady;
  now = kStart + seconds(59);
  EXPECT_EQ(plan(mix_of(1900, 60)).reason, FlipReason::kDwell);
  now = kStart + seconds(60);
  EXPECT_TRUE(plan(mix_of(1900, 60)).worker);
  EXPECT_EQ(plan(mix_of(1900, 60)).reason, FlipReason::kCooldown);
  config.enabled = false;
  EXPECT_EQ(plan(mix_of(1900, 60)).reason, FlipReason::kOff);
}

// No rates are known where no worker decodes, and nothing is answered until one does.
TEST_F(Roles, APoolBelowItsMinimumIsRefilledWhateverTheTraffic) {
  config.samples = 3;
  plan({});
  workers = pool(2, 0);
  workers[1].role_since = kStart - seconds(1);
  for (int i = 0; i < 2; ++i) EXPECT_FALSE(plan({}).worker) << "a restart takes a moment";
  const FlipDecision decision = plan({});
  EXPECT_EQ(decision.reason, FlipReason::kBelowMinimum);
  EXPECT_EQ(decision.to, Role::kDecode);
  EXPECT_EQ(decision.worker, workers[1].id) << "the one that has been longest in its role";
  workers[1].state = WorkerState::kDraining;
  EXPECT_FALSE(plan({}).worker) << "one is under way";
  workers[1].role = Role::kDecode;
  workers[1].state = WorkerState::kStarting;
  EXPECT_FALSE(plan({}).worker);
}

TEST_F(Roles, TheLastPrefillWorkerDecodesWhereNobodyElseDoes) {
  plan({});
  workers = pool(1, 0);
  EXPECT_EQ(plan({}).worker, workers[0].id);
  workers = pool(0, 2);
  EXPECT_EQ(plan({}).to, Role::kPrefill) << "and when the others are back, one of them prefills";
  workers = pool(0, 1);
  EXPECT_FALSE(plan({}).worker);
}

TEST_F(Roles, AClusterThatStartsIsNotRefilled) {
  workers = pool(2, 0);
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(plan({}).worker);
  EXPECT_TRUE(plan({}).worker) << "but one whose decode workers never come is";
}

TEST_F(Roles, ABacklogCountsAsDemand) {
  TrafficMix mix = mix_of(1000, 100);
  mix.decode_backlog_s = 5;
  EXPECT_EQ(plan(mix).reason, FlipReason::kDecodeShort);
}

// Under any traffic: no worker flips before its dwell, no pool falls below its minimum, one moves at a time.
TEST(RolesProperties, FlipsObeyTheDwellUnderAnyTraffic) {
  EXPECT_TRUE(rc::check([] {
    std::vector<FlipWorker> workers = pool(*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 4));
    FlipConfig config;
    config.samples = *rc::gen::inRange(1, 3);
    config.cooldown_ms = *rc::gen::element(0, 5000);
    config.dwell_ms = *rc::gen::element(1000, 10'000);
    FlipState state;
    Time now = kStart;
    for (int i = 0; i < 200; ++i, now += milliseconds(500)) {
      const TrafficMix mix = mix_of(*rc::gen::inRange(0, 5000), *rc::gen::inRange(0, 500));
      const FlipDecision decision = plan_flip(workers, mix, config, now, state);
      if (!decision.worker) continue;
      const auto moved = std::ranges::find(workers, *decision.worker, &FlipWorker::id);
      RC_ASSERT(moved != workers.end() && moved->role != decision.to);
      RC_ASSERT(now - moved->role_since >= milliseconds(config.dwell_ms));
      moved->role = decision.to;
      moved->role_since = now;
      RC_ASSERT(std::ranges::count(workers, Role::kPrefill, &FlipWorker::role) >= config.min_prefill);
      RC_ASSERT(std::ranges::count(workers, Role::kDecode, &FlipWorker::role) >= config.min_decode);
    }
  }));
}

TEST(Sizing, TwoPrefillAndOneDecodeWorkerAsInTheExample) {
  const PhaseRates rates{.prefill_rps = 5.6, .decode_rps = 10, .both_rps = 1.6};
  EXPECT_DOUBLE_EQ(goodput_rps(rates, 2, 1), 10);
  EXPECT_NEAR(goodput_per_worker(rates, 2, 1), 3.33, 0.01);
  const Split best = best_split(rates, 3);
  EXPECT_EQ(best.num_prefill, 2);
  EXPECT_EQ(best.num_decode, 1);
}

TEST(Sizing, KeepsWorkersThatDoBothWhereNoSplitIsBetter) {
  EXPECT_EQ(best_split({.prefill_rps = 2, .decode_rps = 2, .both_rps = 1.5}, 4).num_both, 4);
  EXPECT_EQ(best_split({.prefill_rps = 2, .decode_rps = 2, .both_rps = 1.5}, 1).num_both, 1);
}

TEST(Sizing, FindsTheFewestWorkersOrTheNearestThatIsPossible) {
  const PhaseRates rates{.prefill_rps = 5.6, .decode_rps = 10};
  const Split enough = size_for(rates, 19, 20);
  EXPECT_TRUE(enough.feasible);
  EXPECT_EQ(enough.num_prefill + enough.num_decode, 6);  // 4P2D: min(22.4, 20)
  const Split most = size_for(rates, 1000, 6);
  EXPECT_FALSE(most.feasible);
  EXPECT_DOUBLE_EQ(most.rps, 20);
  EXPECT_NE(most.why.find("not possible with 6 workers"), std::string::npos);
}

}  // namespace
}  // namespace cheetah::cluster
