// SPDX-License-Identifier: MIT
#include "lab/analysis/counters.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "lab/analysis/diagnose.h"

namespace cheetah::analysis {
namespace {

TEST(Counters, TheRawPageIsMappedAndDerived) {
  const auto kernels = read_ncu_csv(
      "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"dram__bytes_read.sum\",\"dram__bytes_write.sum\","
      "\"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum\",\"l1tex__t_requests_pipe_lsu_mem_global_op_ld."
      "sum\","
      "\"smsp__thread_inst_executed_per_inst_executed.ratio\",\"smsp__thread_inst_executed_pred_on_per_inst_"
      "executed.ratio\","
      "\"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio\","
      "\"smsp__average_warps_issue_stalled_selected_per_issue_active.ratio\","
      "\"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio\",\"launch__occupancy_limit_"
      "registers\"\n"
      "\"\",\"\",\"us\",\"Mbyte\",\"Kbyte\",\"sector\",\"request\",\"\",\"\",\"inst\",\"inst\",\"inst\","
      "\"block\"\n"
      "\"0\",\"copy\",\"10\",\"8\",\"2,000\",\"8,000\",\"1000\",\"32\",\"16\",\"6\",\"1\",\"2\",\"8\"\n");
  ASSERT_EQ(kernels.size(), 1u);
  const Counters c = counters_from_ncu(kernels[0]);
  EXPECT_DOUBLE_EQ(*c["duration_us"], 10);
  EXPECT_DOUBLE_EQ(*c["dram_bytes"], 10e6);
  EXPECT_DOUBLE_EQ(*c["dram_bytes_per_s"], 1e12);
  EXPECT_DOUBLE_EQ(*c["sectors_per_request"], 8);
  EXPECT_DOUBLE_EQ(*c["warp_efficiency_pct"], 100);
  EXPECT_DOUBLE_EQ(*c["predicated_off_pct"], 50);
  EXPECT_DOUBLE_EQ(*c["limit_registers"], 8);
  EXPECT_DOUBLE_EQ(*c.stall("long_scoreboard"), 75);
  EXPECT_DOUBLE_EQ(*c.stall("barrier"), 0);
  EXPECT_EQ(c.top_stall(), "long_scoreboard");
}

TEST(Counters, TheDetailsPageIsMappedByItsLabels) {
  std::string csv =
      "\"ID\",\"Kernel Name\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n";
  const char* rows[][4] = {{"GPU Speed Of Light Throughput", "Memory Throughput", "%", "91.2"},
      {"GPU Speed Of Light Throughput", "DRAM Throughput", "%", "91.2"},
      {"GPU Speed Of Light Throughput", "Compute (SM) Throughput", "%", "14.0"},
      {"GPU Speed Of Light Throughput", "Duration", "ms", "1.25"},
      {"GPU Speed Of Light Throughput", "Elapsed Cycles", "cycle", "2,000,000"},
      {"GPU Speed Of Light Throughput", "SM Active Cycles", "cycle", "1,900,000"},
      {"Memory Workload Analysis", "Memory Throughput", "Tbyte/s", "4.2"},
      {"Occupancy", "Achieved Occupancy", "%", "88.5"},
      {"Launch Statistics", "Registers Per Thread", "register/thread", "24"}};
  for (const auto& [section, metric, unit, value] : rows)
    csv += std::string("\"0\",\"stream\",\"") + section + "\",\"" + metric + "\",\"" + unit + "\",\"" +
           value + "\"\n";
  const auto kernels = read_ncu_csv(csv);
  ASSERT_EQ(kernels.size(), 1u);
  const Counters c = counters_from_ncu(kernels[0]);
  EXPECT_DOUBLE_EQ(*c["dram_pct"], 91.2);
  EXPECT_DOUBLE_EQ(*c["duration_us"], 1250);
  EXPECT_DOUBLE_EQ(*c["dram_bytes_per_s"], 4.2e12);
  EXPECT_DOUBLE_EQ(*c["sm_active_pct"], 95);
  EXPECT_EQ(diagnose(c).regime, Regime::kBandwidth);
}

TEST(Counters, OldWordsForStallsBecomeNewOnes) {
  EXPECT_EQ(normal_stall("stall_memory_dependency"), "long_scoreboard");
  EXPECT_EQ(normal_stall("Exec Dependency"), "wait");
  EXPECT_EQ(normal_stall("Long Scoreboard"), "long_scoreboard");
  EXPECT_EQ(normal_stall("gmma"), "gmma");
}

TEST(Counters, OurJsonIsReadAndItsMistakesAreNamed) {
  const auto read = [](const char* text) { return counters_from_json(parse_json(text, "c.json"), "c.json"); };
  const auto good = read(
      R"({"kernels":[{"name":"k","counters":{"dram_pct":90,"cpu_busy":true,"math_pct":null},"stalls":{"Barrier":40}}]})");
  ASSERT_EQ(good.size(), 1u);
  EXPECT_DOUBLE_EQ(*good[0]["dram_pct"], 90);
  EXPECT_DOUBLE_EQ(*good[0]["cpu_busy"], 1);
  EXPECT_FALSE(good[0]["math_pct"]);
  EXPECT_DOUBLE_EQ(*good[0].stall("barrier"), 40);
  for (const char* bad :
      {"{}", "[]", R"({"kernels":3})", R"({"kernels":[3]})", R"({"kernels":[{"counters":{"dram":1}}]})",
          R"({"kernels":[{"counters":{"dram_pct":"x"}}]})", R"({"kernels":[{"stalls":[1]}]})"})
    EXPECT_THROW(read(bad), Error) << bad;
}

}  // namespace
}  // namespace cheetah::analysis
