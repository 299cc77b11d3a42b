// SPDX-License-Identifier: MIT
// What the documentation says of scaling by goals, on a simulated day.
#include "cluster/policy/simulation/scaling_day.h"

#include <gtest/gtest.h>

#include "base/format.h"

namespace cheetah::cluster::throughput {
namespace {

std::string told(const DayReport& r) {
  return format(
      "{:.2f} % in time, {:.0f} replica hours, {} changes", 100 * r.in_time, r.replica_hours, r.changes);
}

TEST(ScalingDay, GoalsAreMetForLittleMoreThanWhoKnowsTheDayBeforehand) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    const DayShape shape{.seed = seed};
    const DayReport slo = run_day(shape, DayScaler::kSlo), oracle = run_day(shape, DayScaler::kOracle),
                    reactive = run_day(shape, DayScaler::kReactive);
    SCOPED_TRACE("goals: " + told(slo) + "; oracle: " + told(oracle) + "; reactive: " + told(reactive));
    EXPECT_GE(slo.in_time, 0.98);
    EXPECT_GT(slo.in_time, reactive.in_time);
    EXPECT_LE(slo.replica_hours, 1.1 * oracle.replica_hours);
    EXPECT_LE(slo.replica_hours, 1.1 * reactive.replica_hours);
  }
}

TEST(ScalingDay, ACrashNeverLowersAWish) {
  DayShape calm;
  calm.crashes_s = {};
  const DayReport crashed = run_day({}, DayScaler::kSlo), without = run_day(calm, DayScaler::kSlo);
  ASSERT_EQ(crashed.decode_wishes.size(), without.decode_wishes.size());
  for (size_t t = 0; t < crashed.decode_wishes.size(); ++t)
    ASSERT_GE(crashed.decode_wishes[t], without.decode_wishes[t]) << "in second " << t;
}

TEST(ScalingDay, AModelThatLoadsSlowlyIsStartedEarlier) {
  DayShape slow;
  slow.start_s = 240;
  const DayReport slo = run_day(slow, DayScaler::kSlo), reactive = run_day(slow, DayScaler::kReactive);
  SCOPED_TRACE("goals: " + told(slo) + "; reactive: " + told(reactive));
  EXPECT_GE(slo.in_time, 0.95);
  EXPECT_GT(slo.in_time, reactive.in_time);
}

}  // namespace
}  // namespace cheetah::cluster::throughput
