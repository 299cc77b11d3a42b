// SPDX-License-Identifier: MIT
// What the policies achieve under traffic. The clock is simulated and the step times are those of a measured
// engine: the numbers are the same on every machine.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "cluster/policy/simulation/scenarios.h"

namespace cheetah::cluster::throughput {
namespace {

TEST(Throughput, StepTimesAreThoseOfTheMeasuredEngine) {
  const Json measured = read_json_file(std::string(CHEETAH_SOURCE_DIR) + "/results/h200/engine.json")["bf16"];
  const StepModel steps = h200_llama_8b();
  for (const Json& row : measured["decode"]) {
    const auto batch = row["batch"].get<int64_t>();
    // Half of the tokens decoded lie before the median step.
    const int64_t context = batch * (row["context"].get<int64_t>() + 64);
    const double ms = row["step_seconds_median"].get<double>() * 1e3;
    EXPECT_NEAR(steps.decode_ms(batch, context), ms, 0.12 * ms) << batch;
  }
  const double token_ms = 1e3 / measured["prompt"]["tokens_per_second"].get<double>();
  EXPECT_NEAR(steps.prefill_token_ms, token_ms, 0.02 * token_ms);
}

TEST(Throughput, EveryRequestIsAnsweredOrRefusedOnce) {
  const Report report = run(overload(1.5, true));
  EXPECT_EQ(report.accepted + report.rejected, report.offered);
  EXPECT_EQ(static_cast<int64_t>(report.finished.size()), report.accepted);
  const Report again = run(overload(1.5, true));
  EXPECT_EQ(again.in_time, report.in_time);  // the same seed, the same run
}

TEST(Throughput, AtTwiceTheCapacityAcceptedRequestsKeepTheirTargetsOnlyWithAdmission) {
  for (const uint64_t seed : {1, 2, 3}) {
    Scenario on = overload(2, true), off = overload(2, false);
    on.seed = off.seed = seed;
    const Report with = run(on), without = run(off);
    EXPECT_GE(with.compliance(), 0.9) << seed;
    EXPECT_LT(without.compliance(), 0.5) << seed;
    // Refusing does not cost throughput: nine tenths of what the cluster can carry is carried in time.
    EXPECT_GE(with.goodput_rps(), 0.9 * capacity_rps(on, on.streams[0])) << seed;
  }
}

TEST(Throughput, BelowTheCapacityHardlyAnythingIsRefused) {
  const Report report = run(overload(0.7, true));
  EXPECT_LE(report.rejected, report.offered / 1000);
  EXPECT_GE(report.compliance(), 0.999);
}

int64_t num_premium(const Report& report) {
  return std::ranges::count(report.finished, kPremium, &Finished::class_index);
}

TEST(Throughput, AFloodOfTheFreeTierDoesNotReachPremium) {
  for (const uint64_t seed : {1, 2, 3})
    for (const double flood : {1.5, 3.0}) {
      Scenario quiet = free_tier_flood(0), flooded = free_tier_flood(flood);
      quiet.seed = flooded.seed = seed;
      const Report alone = run(quiet), beside = run(flooded);
      EXPECT_EQ(num_premium(beside), num_premium(alone)) << seed;  // none refused
      EXPECT_LE(ttft_quantile(beside, kPremium, 0.99), 1.1 * ttft_quantile(alone, kPremium, 0.99)) << seed;
      const QosClass& target = flooded.policy.qos.classes[kPremium];
      EXPECT_LE(tpot_quantile(beside, kPremium, 0.99), target.tpot_slo_ms / 2) << seed;
      EXPECT_GE(beside.compliance(), 0.9)
          << seed << ": those of the free tier that were taken are served too";
      EXPECT_GT(beside.preempted, 0) << seed << ": of the free tier, for premium";
    }
}

TEST(Throughput, WithoutClassesAFloodOfTheFreeTierDrownsPremium) {
  Scenario flooded = free_tier_flood(2);
  for (Stream& stream : flooded.streams) stream.to_s = 30;
  EXPECT_GE(ttft_quantile(run(without_classes(flooded)), kPremium, 0.99), 10'000);
}

// What the reservation alone does, where nobody is more urgent by its class.
TEST(Throughput, AReservationProtectsAmongEquals) {
  Scenario quiet = free_tier_flood(0), flooded = free_tier_flood(2);
  for (Scenario* one : {&quiet, &flooded})
    for (QosClass& c : one->policy.qos.classes) c.priority = 0;
  // Enough for its peaks: what is beyond the reservation is one of many.
  quiet.policy.qos.classes[kPremium].reserved = flooded.policy.qos.classes[kPremium].reserved = 0.45;
  const Report alone = run(quiet), beside = run(flooded);
  EXPECT_EQ(num_premium(beside), num_premium(alone));
  EXPECT_LE(ttft_quantile(beside, kPremium, 0.99), 1.1 * ttft_quantile(alone, kPremium, 0.99));
}

TEST(Throughput, RolesThatFollowTheTrafficBeatEveryFixedSplit) {
  const ShiftShape tuned = shift_shapes().front();
  double best_fixed = 0;
  for (int prefill = 1; prefill < kShiftWorkers; ++prefill)
    best_fixed = std::max(best_fixed, run(traffic_shift(tuned, prefill, false)).goodput_rps());
  const Scenario moving = traffic_shift(tuned, 3, true);
  const Report adaptive = run(moving);
  EXPECT_GE(adaptive.goodput_rps(), 1.2 * best_fixed);
  EXPECT_GE(adaptive.compliance(), 0.95);
  ASSERT_FALSE(adaptive.flips.empty());
  // Two moves towards the first mix, four towards the second: no going back and forth.
  EXPECT_LE(adaptive.flips.size(), 8u);
}

TEST(Throughput, NoWorkerMovesWithinItsDwellWhateverTheTraffic) {
  for (const ShiftShape& shape : shift_shapes()) {
    const Scenario moving = traffic_shift(shape, 3, true);
    const Report adaptive = run(moving);
    const double dwell_s = static_cast<double>(moving.policy.roles.dwell_ms) / 1e3;
    for (const Flip& flip : adaptive.flips) EXPECT_GE(flip.since_last_s, dwell_s) << shape.name;
    EXPECT_LE(static_cast<double>(adaptive.flips.size()), kShiftWorkers * moving.end_s / dwell_s);
  }
}

TEST(Throughput, RolesRestWhenTheTrafficDoes) {
  Scenario steady = traffic_shift(shift_shapes().front(), 4, true);
  steady.streams = {{.to_s = 120, .requests_per_s = 33, .prompt_tokens = 4096, .output_tokens = 128}};
  steady.end_s = 120;
  EXPECT_LE(run(steady).flips.size(), 1u);
}

}  // namespace
}  // namespace cheetah::cluster::throughput
