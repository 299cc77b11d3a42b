// SPDX-License-Identifier: MIT
#include "lab/analysis/diagnose.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/error.h"
#include "lab/analysis/rules.h"

namespace cheetah::analysis {
namespace {

using Values = std::map<std::string, double, std::less<>>;

Diagnosis diagnosed(Values values, Values stalls = {}) {
  Counters counters{.name = "kernel", .values = std::move(values), .stalls = std::move(stalls)};
  return diagnose(counters);
}

std::string ids(const Diagnosis& diagnosis) {
  std::string all;
  for (const Finding& finding : diagnosis.findings) all += finding.id + " ";
  return all;
}

#define EXPECT_FOUND(diagnosis, id) EXPECT_NE((diagnosis).find(id), nullptr) << ids(diagnosis)
#define EXPECT_CLEAR(diagnosis, id) EXPECT_EQ((diagnosis).find(id), nullptr) << ids(diagnosis)

// The before and after columns are the book's illustrative tables: they test directions, not machines.
TEST(Diagnose, OneThreadIsUnderutilisationAndAFullGridClearsIt) {
  const auto before = diagnosed(
      {{"sm_active_pct", 1.5}, {"occupancy_pct", 1.3}, {"warp_efficiency_pct", 3.1}, {"duration_us", 48210}});
  EXPECT_EQ(before.regime, Regime::kUnderutilised);
  EXPECT_EQ(before.primary, "D2");
  EXPECT_FOUND(before, "LANES");
  const auto after = diagnosed(
      {{"sm_active_pct", 95}, {"occupancy_pct", 38.7}, {"warp_efficiency_pct", 100}, {"duration_us", 2170}});
  EXPECT_CLEAR(after, "D2");
  ASSERT_EQ(after.findings.size(), 1u) << ids(after);
  EXPECT_EQ(after.findings[0].id, "O1");
  EXPECT_EQ(after.findings[0].strength, Strength::kNote);
  const Comparison change = compare(before, after);
  EXPECT_NEAR(change.speedup, 22, 0.5);
  EXPECT_NE(change.verdict.find("it worked"), std::string::npos);
}

TEST(Diagnose, StridedLoadsAreWasteAndContiguousOnesAreBoundByBandwidth) {
  const auto before = diagnosed({{"dram_pct", 25}, {"load_efficiency_pct", 23}, {"sectors_per_request", 8},
      {"lane_bytes", 4}, {"sm_active_pct", 62}, {"duration_us", 4800}});
  EXPECT_EQ(before.primary, "M1");
  EXPECT_EQ(before.regime, Regime::kAccess);
  const auto after = diagnosed({{"dram_pct", 90}, {"load_efficiency_pct", 99}, {"sectors_per_request", 4},
      {"lane_bytes", 4}, {"sm_active_pct", 99}, {"duration_us", 1300}});
  EXPECT_EQ(after.primary, "D4");
  EXPECT_CLEAR(after, "M1");
  EXPECT_NEAR(compare(before, after).speedup, 3.7, 0.1);
}

TEST(Diagnose, SectorsAreJudgedByTheWidthOfTheLanes) {
  EXPECT_EQ(diagnosed({{"load_efficiency_pct", 28}, {"sectors_per_request", 31.8}, {"dram_pct", 25}}).primary,
      "M1");
  const auto wide = diagnosed(
      {{"load_efficiency_pct", 97}, {"sectors_per_request", 4}, {"lane_bytes", 16}, {"dram_pct", 90}});
  EXPECT_EQ(wide.primary, "D4");
  EXPECT_CLEAR(wide, "M1");
  EXPECT_CLEAR(diagnosed({{"sectors_per_request", 16}, {"lane_bytes", 16}, {"dram_pct", 90}}), "M1");
  EXPECT_FOUND(diagnosed({{"sectors_per_request", 16}, {"lane_bytes", 4}, {"dram_pct", 30}}), "M1");
  EXPECT_CLEAR(diagnosed({{"sectors_per_request", 16}, {"load_efficiency_pct", 100}}), "M1");
}

TEST(Diagnose, ANaiveMatrixProductReadsAgainAndATiledOneIsAtTheSharedPipe) {
  const auto before =
      diagnosed({{"dram_pct", 90}, {"occupancy_pct", 42}, {"gflops", 15}, {"shared_pct", 52}});
  EXPECT_EQ(before.primary, "D4");
  EXPECT_FOUND(before, "M3");
  const auto after =
      diagnosed({{"dram_pct", 25}, {"occupancy_pct", 89}, {"gflops", 170}, {"shared_pct", 99}});
  EXPECT_CLEAR(after, "M3");
  EXPECT_CLEAR(after, "D3");
  EXPECT_EQ(after.primary, "D4c");
  EXPECT_NEAR(compare(before, after).speedup, 11, 0.5);
}

TEST(Diagnose, BankConflictsAreFoundAndPaddingClearsThem) {
  const auto before = diagnosed({{"bank_conflicts", 4.8e6}, {"shared_pct", 52}, {"duration_us", 4000}},
      {{"short_scoreboard", 38}, {"long_scoreboard", 62}});
  EXPECT_FOUND(before, "M4");
  const auto after = diagnosed({{"bank_conflicts", 0}, {"shared_pct", 100}, {"duration_us", 1300}},
      {{"short_scoreboard", 0.5}, {"selected", 99.5}});
  EXPECT_CLEAR(after, "M4");
  EXPECT_NEAR(compare(before, after).speedup, 3, 0.1);
  EXPECT_CLEAR(diagnosed({{"bank_conflicts", 100}, {"shared_wavefronts", 1e6}}), "M4");
}

TEST(Diagnose, TablesFetchedAgainAskForTheReadOnlyPath) {
  const auto before = diagnosed({{"load_efficiency_pct", 52}, {"dram_bytes_per_s", 600e9},
      {"l2_bytes_per_s", 1500e9}, {"sm_active_pct", 45}, {"duration_us", 2500}});
  EXPECT_FOUND(before, "M6");
  const auto after = diagnosed({{"load_efficiency_pct", 97}, {"dram_bytes_per_s", 200e9},
      {"l2_bytes_per_s", 1800e9}, {"sm_active_pct", 93}, {"duration_us", 1000}});
  EXPECT_CLEAR(after, "M6");
  EXPECT_NEAR(compare(before, after).speedup, 2.5, 0.01);
  // A stream asks L2 for each byte once.
  EXPECT_CLEAR(
      diagnosed({{"dram_bytes_per_s", 3e12}, {"l2_bytes_per_s", 3.2e12}, {"sm_active_pct", 60}}), "M6");
}

TEST(Diagnose, SynchronousTilesWasteFirstAndWaitSecond) {
  const auto before = diagnosed({{"load_efficiency_pct", 23}, {"sectors_per_request", 6.4}, {"dram_pct", 25},
      {"sm_active_pct", 62}, {"duration_us", 18000}});
  ASSERT_GE(before.findings.size(), 2u);
  EXPECT_EQ(before.findings[0].id, "M1");
  EXPECT_EQ(before.findings[1].id, "M7");
  const auto after = diagnosed({{"load_efficiency_pct", 99}, {"sectors_per_request", 4}, {"dram_pct", 90},
      {"sm_active_pct", 100}, {"duration_us", 7000}});
  EXPECT_EQ(after.primary, "D4");
  EXPECT_CLEAR(after, "M7");
  EXPECT_NEAR(compare(before, after).speedup, 2.6, 0.05);
}

TEST(Diagnose, BranchesThatSplitWarpsAreFound) {
  const auto before = diagnosed({{"warp_efficiency_pct", 50}, {"predicated_off_pct", 50},
      {"instructions", 600e6}, {"branch_stall_cycles", 200}, {"duration_us", 30000}});
  EXPECT_EQ(before.primary, "D8");
  const auto after = diagnosed({{"warp_efficiency_pct", 99}, {"predicated_off_pct", 0},
      {"instructions", 300e6}, {"branch_stall_cycles", 100}, {"duration_us", 15000}});
  EXPECT_CLEAR(after, "D8");
  EXPECT_DOUBLE_EQ(compare(before, after).speedup, 2);
}

TEST(Diagnose, WaitingForMemoryAsksForWarpsAndThenForOverlap) {
  const Values stalls = {{"long_scoreboard", 60}, {"wait", 25}, {"not_selected", 15}};
  const auto few =
      diagnosed({{"sm_active_pct", 98}, {"dram_pct", 30}, {"math_pct", 10}, {"occupancy_pct", 25},
                    {"limit_registers", 2}, {"limit_shared", 8}, {"limit_warps", 8}},
          stalls);
  EXPECT_EQ(few.primary, "D5");
  EXPECT_EQ(few.regime, Regime::kLatency);
  EXPECT_NE(few.findings[0].remedies[0].find("registers limit"), std::string::npos)
      << few.findings[0].remedies[0];
  EXPECT_CLEAR(few, "D10");
  const auto many =
      diagnosed({{"sm_active_pct", 98}, {"dram_pct", 30}, {"math_pct", 10}, {"occupancy_pct", 60}}, stalls);
  EXPECT_EQ(many.primary, "D5");
  EXPECT_FOUND(many, "D10");
  EXPECT_NE(many.findings[0].remedies[0].find("independent"), std::string::npos)
      << many.findings[0].remedies[0];
}

TEST(Diagnose, BusyPipesChainsAndIdleHostsHaveTheirOwnVerdicts) {
  EXPECT_EQ(
      diagnosed({{"math_pct", 95}, {"dram_pct", 20}}, {{"math_pipe_throttle", 55}, {"wait", 20}}).primary,
      "D3");
  EXPECT_EQ(diagnosed({{"math_pct", 50}, {"dram_pct", 15}}, {{"wait", 55}, {"long_scoreboard", 20}}).primary,
      "D11");
  const auto host =
      diagnosed({{"sm_active_pct", 20}, {"timeline_gap_pct", 70}, {"cpu_busy", 1}, {"occupancy_pct", 30}});
  EXPECT_EQ(host.primary, "D1");
  EXPECT_EQ(host.regime, Regime::kHost);
  EXPECT_EQ(diagnosed({{"dram_pct", 70}, {"math_pct", 20}}, {{"barrier", 60}}).primary, "D6");
  EXPECT_EQ(
      diagnosed({{"intensity", 500}, {"ridge", 200}, {"math_pct", 20}, {"dram_pct", 70}}).primary, "D12");
  EXPECT_EQ(diagnosed({{"copy_overlap_pct", 3}}).primary, "M9");
}

TEST(Diagnose, SuspectMeasurementsAreToldFirstHand) {
  EXPECT_FOUND(diagnosed({{"throttled", 1}, {"dram_pct", 90}}), "D0");
  EXPECT_FOUND(diagnosed({{"spill_instructions", 400}}), "D0");
  EXPECT_CLEAR(
      diagnosed({{"spill_instructions", 0}, {"throttled", 0}, {"debug_build", 0}, {"duration_us", 100}}),
      "D0");
}

TEST(Diagnose, NotSelectedIsNeverTheTroubleAndPlentyOfWarpsIsANote) {
  const auto fine = diagnosed(
      {{"dram_pct", 50}, {"math_pct", 50}, {"eligible_warps", 4}}, {{"not_selected", 90}, {"wait", 10}});
  EXPECT_EQ(fine.counters.top_stall(), "wait");
  EXPECT_EQ(fine.primary, "");
  EXPECT_EQ(fine.find("D9")->strength, Strength::kNote);
}

TEST(Diagnose, WhatCannotBeJudgedIsNamedWithTheWayToCollectIt) {
  const auto nothing = diagnosed({});
  EXPECT_EQ(nothing.regime, Regime::kUnclear);
  EXPECT_TRUE(nothing.findings.empty());
  EXPECT_EQ(nothing.unjudged.size(), regime_rules().size() + memory_rules().size() + launch_rules().size());
  const auto found = std::ranges::find(nothing.unjudged, "D4", &Unjudged::id);
  ASSERT_NE(found, nothing.unjudged.end());
  EXPECT_EQ(found->missing, std::vector<std::string>{"dram_pct"});
  EXPECT_NE(found->collect.find("SpeedOfLight"), std::string::npos);
  EXPECT_NE(diagnosis_text(nothing).find("ncu --set full"), std::string::npos);
}

TEST(Diagnose, ChangesThatDoNotHelpAreToldApart) {
  const auto before = diagnosed({{"dram_pct", 40}, {"occupancy_pct", 30}, {"duration_us", 100}});
  EXPECT_NE(compare(before, diagnosed({{"dram_pct", 40}, {"occupancy_pct", 60}, {"duration_us", 100}}))
                .verdict.find("undo"),
      std::string::npos);
  EXPECT_NE(compare(before, diagnosed({{"duration_us", 130}})).verdict.find("slower"), std::string::npos);
  EXPECT_EQ(compare(before, diagnosed({{"dram_pct", 45}})).speedup, 0);
}

TEST(Diagnose, AnyNumbersGiveADiagnosis) {
  EXPECT_TRUE(rc::check("numbers", [](const std::vector<std::pair<uint8_t, int>>& numbers,
                                       const std::vector<std::pair<uint8_t, uint8_t>>& waits) {
    Counters counters{.name = "k", .values = {}, .stalls = {}};
    const auto& names = counter_names();
    for (const auto& [index, value] : numbers)
      counters.values[std::string(names[index % names.size()].name)] = value;
    const char* reasons[] = {
        "long_scoreboard", "wait", "barrier", "not_selected", "math_pipe_throttle", "lg_throttle"};
    for (const auto& [index, share] : waits) counters.stalls[reasons[index % 6]] = share;
    const Diagnosis diagnosis = diagnose(counters);
    if (!diagnosis.primary.empty()) RC_ASSERT(diagnosis.findings.front().id == diagnosis.primary);
    diagnosis_text(diagnosis);
    diagnosis_json(diagnosis);
  }));
}

}  // namespace
}  // namespace cheetah::analysis
