// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/format.h"
#include "testing/cluster/sim_cluster.h"

namespace cheetah::cluster::simulation {
namespace {

#ifdef CHEETAH_SANITIZED
constexpr int64_t kFewSeeds = 300;
#else
constexpr int64_t kFewSeeds = 1000;
#endif

std::string explain(uint64_t seed, const Verdict& verdict) {
  std::string text = format("seed {}:\n", seed);
  for (const std::string& violation : verdict.violations) text += "  " + violation + "\n";
  const Verdict again = SimCluster(seed, true).run();
  return text + again.log;
}

// CHEETAH_SIM_SEEDS=10000 for the long run; CHEETAH_SIM_SEED=n for one, with all that happened in it.
int64_t from_environment(const char* name, int64_t otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : std::atoll(value);
}

void add(Verdict& all, const Verdict& one) {
  all.faults += one.faults;
  all.clients.requests += one.clients.requests;
  all.clients.completed += one.clients.completed;
  all.clients.failed += one.clients.failed;
  all.clients.cancelled += one.clients.cancelled;
  all.clients.orphaned += one.clients.orphaned;
  all.clients.came_back += one.clients.came_back;
  all.steps += one.steps;
  for (const auto& [kind, number] : one.fault_kinds) all.fault_kinds[kind] += number;
  for (size_t i = 0; i < all.counters.size(); ++i) all.counters[i] += one.counters[i];
}

std::string report(int64_t seeds, const Verdict& all) {
  std::string text = format(
      "{} seeds: {} faults; {} requests: {} completed, {} failed cleanly, {} cancelled, {} lost their "
      "router and {} of them came back to another; {} steps\n",
      seeds, all.faults, all.clients.requests, all.clients.completed, all.clients.failed,
      all.clients.cancelled, all.clients.orphaned, all.clients.came_back, all.steps);
  for (const auto& [kind, number] : all.fault_kinds) text += format("  {:7} {}\n", number, kind);
  for (size_t i = 0; i < all.counters.size(); ++i)
    text += format("  {:7} {}\n", all.counters[i], counter_name(static_cast<Counter>(i)));
  return text;
}

// The first seed that finds the bug, or -1.
int64_t seed_that_finds(PlantedBug bug) {
  for (uint64_t seed = 0; seed < 2000; ++seed)
    if (!SimCluster(seed, false, bug).run().violations.empty()) return static_cast<int64_t>(seed);
  return -1;
}

TEST(Simulation, EveryRequestEndsOnceWithItsOwnTokensWhateverGoesWrong) {
  const int64_t one = from_environment("CHEETAH_SIM_SEED", -1);
  const int64_t first = one >= 0 ? one : 0;
  const int64_t count = one >= 0 ? 1 : from_environment("CHEETAH_SIM_SEEDS", kFewSeeds);
  Verdict all;
  for (int64_t i = first; i < first + count; ++i) {
    const auto seed = static_cast<uint64_t>(i);
    const Verdict verdict = SimCluster(seed, one >= 0).run();
    if (one >= 0) std::fputs(verdict.log.c_str(), stdout);
    ASSERT_TRUE(verdict.violations.empty()) << explain(seed, verdict);
    add(all, verdict);
  }
  if (one >= 0) return;
  const std::string summary = report(count, all);
  if (count > kFewSeeds) std::fputs(summary.c_str(), stdout);
  EXPECT_GT(all.faults, 1000) << summary;
  EXPECT_GT(all.clients.completed, all.clients.requests * 9 / 10) << summary;
  // What the faults are meant to reach was reached.
  for (const Counter counter : {Counter::kMigrations, Counter::kWorkersLost, Counter::kStaleDropped,
           Counter::kDuplicatesDropped, Counter::kProbes, Counter::kRaces, Counter::kRacesWonBySecond,
           Counter::kUnavailable, Counter::kFallbacks, Counter::kNoSpace, Counter::kBreakerOpened,
           Counter::kJobsDirect, Counter::kJobsRefused, Counter::kSlabsImported, Counter::kSlabsRefused,
           Counter::kQuarantined, Counter::kOrphansCancelled, Counter::kFlips, Counter::kFlipsRefused,
           Counter::kResumed, Counter::kResumedAnew})
    EXPECT_GT(all.counters[static_cast<size_t>(counter)], 0) << counter_name(counter) << '\n' << summary;
}

TEST(Simulation, TheSameSeedGivesTheSameRunToTheLastEvent) {
  for (const uint64_t seed : {3u, 8u, 77u, 480u}) {
    const Verdict first = SimCluster(seed, true).run();
    EXPECT_GT(first.log.size(), 1000u);
    EXPECT_EQ(first.log, SimCluster(seed, true).run().log) << "seed " << seed;
  }
}

TEST(Simulation, FindsARouterThatForwardsWhatComesTwice) {
  EXPECT_GE(seed_that_finds(PlantedBug::kForwardsTwice), 0);
}
TEST(Simulation, FindsARouterThatBelievesAStaleAttempt) {
  EXPECT_GE(seed_that_finds(PlantedBug::kBelievesStale), 0);
}
TEST(Simulation, FindsARouterThatForgetsWhatItForwarded) {
  EXPECT_GE(seed_that_finds(PlantedBug::kForgetsTokens), 0);
}
TEST(Simulation, FindsARouterThatBlamesARequestForItsBadLuck) {
  EXPECT_GE(seed_that_finds(PlantedBug::kCountsBadLuck), 0);
}
TEST(Simulation, FindsAWorkerThatFreesMemoryOthersMayStillWriteTo) {
  EXPECT_GE(seed_that_finds(PlantedBug::kFreesTooEarly), 0);
}
TEST(Simulation, FindsAWorkerThatAcceptsAnyClaim) {
  EXPECT_GE(seed_that_finds(PlantedBug::kAcceptsAnyClaim), 0);
}
TEST(Simulation, FindsAWorkerThatForgetsTheMemoryOfACancelledRequest) {
  EXPECT_GE(seed_that_finds(PlantedBug::kForgetsMemory), 0);
}
TEST(Simulation, FindsAWorkerThatServesALostRouter) {
  EXPECT_GE(seed_that_finds(PlantedBug::kServesLostRouter), 0);
}
TEST(Simulation, FindsAWorkerThatKeepsItsPins) { EXPECT_GE(seed_that_finds(PlantedBug::kKeepsPins), 0); }
TEST(Simulation, FindsAWorkerThatSaysTooEarlyThatItWritesNoMore) {
  EXPECT_GE(seed_that_finds(PlantedBug::kSaysStoppedTooEarly), 0);
}

}  // namespace
}  // namespace cheetah::cluster::simulation
