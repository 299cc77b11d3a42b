// SPDX-License-Identifier: MIT
#include "cluster/policy/slo_scaling.h"

#include <gtest/gtest.h>

#include "cluster/policy/planner.h"
#include "cluster/policy/policy_config.h"

namespace cheetah::cluster {
namespace {

constexpr SloScaling kGoals{.enabled = true, .ttft_ms = 500, .tpot_ms = 20};
constexpr WorkerRates kRates{.prefill_us_per_token = 40,
    .step_base_us = 8000,
    .step_us_per_sequence = 120,
    .max_sequences = 128,
    .prompt_tokens = 1000,
    .overhead_ms = 15};

TEST(SloScaling, DecodeWorkersRunTheLargestBatchWhoseStepsAreInTime) {
  // 8 ms + 100 * 0.12 ms = 20 ms: 100 sequences give 5,000 tokens per second.
  EXPECT_DOUBLE_EQ(decode_rate(kRates, 20), 5000);
  EXPECT_LT(decode_rate(kRates, 10), decode_rate(kRates, 20));
  EXPECT_NEAR(decode_rate(kRates, 1000), 128e6 / (8000 + 128 * 120), 1) << "no more than its places";
  EXPECT_NEAR(decode_rate(kRates, 1), 1e6 / 8120, 1) << "a goal that cannot be met still moves work";
  EXPECT_EQ(decode_replicas({20'000, 0}, kRates, kGoals), 6);
  EXPECT_EQ(decode_replicas({20'000, 160'000}, kRates, kGoals), 8) << "what waits is to be done soon";
  EXPECT_EQ(decode_replicas({0, 0}, kRates, kGoals), 0);
  EXPECT_EQ(decode_replicas({20'000, 0}, {}, kGoals), 0) << "nothing is known";
}

TEST(SloScaling, PrefillWorkersAreAsManyAsKeepTheWaitInTime) {
  const int64_t calm = prefill_replicas({50'000, 0}, kRates, kGoals);
  EXPECT_EQ(calm, 3);  // two are always busy
  SloScaling hasty = kGoals;
  hasty.ttft_ms = 65;  // 10 ms for the wait
  EXPECT_GT(prefill_replicas({50'000, 0}, kRates, hasty), calm);
  hasty.ttft_ms = 30;  // less than the prompt takes: more workers do not help
  EXPECT_EQ(prefill_replicas({50'000, 0}, kRates, hasty), calm);
  EXPECT_GT(prefill_replicas({50'000, 1'000'000}, kRates, kGoals), calm);
  for (double load = 1000; load < 1e6; load *= 1.5)
    EXPECT_GE(prefill_replicas({1.5 * load, 0}, kRates, kGoals), prefill_replicas({load, 0}, kRates, kGoals));
}

TEST(SloScaling, TheForecastFollowsAndLooksAhead) {
  LoadForecast steady, growing;
  for (int t = 0; t < 600; ++t) {
    steady.add(1000, 1);
    growing.add(1000 + 2.0 * t, 1);
  }
  EXPECT_NEAR(steady.at(60), 1000, 1);
  EXPECT_NEAR(growing.at(60), 1000 + 2 * 659, 60);
  for (int t = 0; t < 60; ++t) steady.add(3000, 1);
  EXPECT_GT(steady.at(0), 2900) << "a burst is seen within a minute";
  for (int t = 0; t < 1200; ++t) steady.add(0, 1);
  EXPECT_LT(steady.at(60), 1);
}

TEST(SloScaling, AWishIsHeldUntilItHasNotBeenNeededForAWhile) {
  HeldWish wish;
  const auto at = [](int s) { return Time{std::chrono::seconds(s)}; };
  const Duration hold = std::chrono::seconds(300);
  EXPECT_EQ(wish.hold(3, at(0), hold), 3);
  EXPECT_EQ(wish.hold(7, at(10), hold), 7) << "up at once";
  EXPECT_EQ(wish.hold(2, at(100), hold), 7);
  EXPECT_EQ(wish.hold(4, at(200), hold), 7);
  EXPECT_EQ(wish.hold(2, at(310), hold), 7);
  EXPECT_EQ(wish.hold(2, at(311), hold), 4) << "to the most of the last five minutes";
  EXPECT_EQ(wish.hold(2, at(502), hold), 2);
}

KnownWorkers pools(int64_t prefill, int64_t decode) {
  KnownWorkers workers;
  for (int64_t i = 0; i < prefill + decode; ++i) {
    KnownWorker& worker = workers[WorkerId{static_cast<uint64_t>(i + 1)}];
    worker.descriptor.id = WorkerId{static_cast<uint64_t>(i + 1)};
    worker.descriptor.role = i < prefill ? Role::kPrefill : Role::kDecode;
    worker.descriptor.state = WorkerState::kReady;
    worker.descriptor.max_sequences = 128;
    worker.linked = worker.described = true;
    worker.load.prefill_us_per_token = 40;
  }
  return workers;
}

TEST(SloScaling, ACrashDoesNotLowerWhatThePlannerWants) {
  PolicyConfig config;
  config.autoscale.enabled = true;
  config.autoscale.slo = kGoals;
  config.autoscale.slo.hold_ms = 1000;
  Estimates estimates;
  for (int i = 0; i < 100; ++i) estimates.steps.add(i % 100, 8000 + 120 * (i % 100), 0.01);
  estimates.output_tokens.add(200, 1);
  Planner planner;
  Time now{std::chrono::hours(1)};
  const PlanOrders orders;
  std::optional<Plan> plan;
  const auto pass = [&](const KnownWorkers& workers, int seconds) {
    for (int s = 0; s < seconds; ++s, now += std::chrono::seconds(1)) {
      for (int i = 0; i < 60; ++i) planner.arrived(1000, 1000, 200);
      plan = planner.plan({.workers = workers, .orders = orders}, estimates, config, now);
      ASSERT_TRUE(plan);
    }
  };
  pass(pools(4, 4), 120);
  EXPECT_EQ(plan->prefill.reason, ScaleReason::kPredicted);
  const int64_t prefill = plan->prefill.desired, decode = plan->decode.desired;
  EXPECT_EQ(prefill, 4);
  EXPECT_EQ(decode, 4);
  pass(pools(1, 1), 60);  // most are dead, or load their model
  EXPECT_EQ(plan->prefill.desired, prefill);
  EXPECT_EQ(plan->decode.desired, decode);
  pass({}, 60);  // all are
  EXPECT_EQ(plan->prefill.desired, prefill);
  EXPECT_EQ(plan->decode.desired, decode);
}

TEST(SloScaling, IsReadFromThePolicies) {
  const PolicyConfig config = parse_policy_config(
      "[autoscale]\nenabled = true\n[autoscale.slo]\nenabled = true\nttft_ms = 300\ntpot_ms = 15\nhorizon_ms = 90000\n",
      "p");
  EXPECT_TRUE(config.autoscale.slo.enabled);
  EXPECT_EQ(config.autoscale.slo.ttft_ms, 300);
  EXPECT_EQ(config.autoscale.slo.horizon_ms, 90'000);
  EXPECT_NE(reload_policy_config("[autoscale.slo]\nheadroom = 2\n", "p").why_not, "");
  EXPECT_NE(reload_policy_config("[autoscale.slo]\nttft = 2\n", "p").why_not, "");
}

}  // namespace
}  // namespace cheetah::cluster
