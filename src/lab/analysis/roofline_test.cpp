// SPDX-License-Identifier: MIT
#include "lab/analysis/roofline.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "lab/analysis/diagnose.h"
#include "lab/analysis/lab_results.h"

namespace cheetah::analysis {
namespace {

// Round numbers: ridges at 20 and 200 FLOP a byte of DRAM.
const RoofSet kRoofs{.source = "test",
    .measured = true,
    .memory = {{"dram", 4e12}, {"l2", 10e12}},
    .math = {{"fp32", 80e12}, {"bf16", 800e12}, {"fp8", 1600e12}}};

TEST(Roofline, VectorAdditionStandsFarLeftOfTheRidge) {
  const PointReading reading =
      read_point(kRoofs, {.name = "add", .flops = 1e9, .traffic = {{"dram", 12e9}}, .seconds = 4e-3});
  ASSERT_EQ(reading.levels.size(), 1u);
  EXPECT_NEAR(reading.levels[0].intensity, 1.0 / 12, 1e-12);
  EXPECT_DOUBLE_EQ(reading.levels[0].ridge, 20);
  EXPECT_EQ(reading.limit, "dram bandwidth");
  EXPECT_NEAR(reading.attainable, 4e12 / 12, 1);
  EXPECT_NEAR(reading.headroom, 4.0 / 3, 1e-9);
  EXPECT_NEAR(reading.levels[0].bandwidth_share, 0.75, 1e-12);
}

TEST(Roofline, TheLowestOfAllLevelsLimits) {
  const RooflinePoint point{
      .name = "tile", .flops = 1e12, .traffic = {{"dram", 1e9}, {"l2", 1e12}}, .seconds = 0};
  const PointReading reading = read_point(kRoofs, point);
  EXPECT_EQ(reading.limit, "l2 bandwidth");
  EXPECT_DOUBLE_EQ(reading.attainable, 10e12);
  EXPECT_EQ(reading.achieved, 0);
  EXPECT_TRUE(reading.advice.empty());
  EXPECT_EQ(read_point(kRoofs, {.name = "m", .flops = 1e12, .traffic = {{"dram", 1e9}}}).limit, "fp32 math");
}

TEST(Roofline, LowerPrecisionHelpsByBytesWhenMemoryLimitsAndByMathWhenItDoes) {
  const auto memory = read_point(kRoofs, {.name = "gemv", .flops = 1e9, .traffic = {{"dram", 2e9}}});
  ASSERT_EQ(memory.changes.size(), 2u);
  EXPECT_EQ(memory.changes[0].dtype, "bf16");
  EXPECT_DOUBLE_EQ(memory.changes[0].bound_speedup, 2);
  EXPECT_DOUBLE_EQ(memory.changes[1].bound_speedup, 4);
  const auto math = read_point(kRoofs, {.name = "gemm", .flops = 1e15, .traffic = {{"dram", 1e9}}});
  EXPECT_DOUBLE_EQ(math.changes[0].bound_speedup, 10);
  EXPECT_TRUE(read_point(kRoofs, {.name = "g", .dtype = "fp8", .flops = 1, .traffic = {{"dram", 1}}})
                  .changes.empty());
}

TEST(Roofline, ImpossibleAndUnknownAreSaid) {
  const auto fast =
      read_point(kRoofs, {.name = "f", .flops = 1e12, .traffic = {{"dram", 1e9}}, .seconds = 1e-3});
  EXPECT_TRUE(fast.impossible);
  const auto odd = read_point(kRoofs, {.name = "o", .dtype = "int4", .flops = 1, .traffic = {{"tape", 1}}});
  EXPECT_EQ(odd.unknown.size(), 2u);
  EXPECT_EQ(odd.attainable, 0);
  EXPECT_FALSE(roofline_text(kRoofs, {fast, odd}).empty());
  EXPECT_EQ(roofline_json(kRoofs, {fast, odd})["points"].size(), 2u);
  const std::string drawing = roofline_svg(kRoofs, {fast, odd});
  EXPECT_NE(drawing.find("xmlns"), std::string::npos);
  EXPECT_NE(drawing.find("<circle"), std::string::npos);
}

TEST(Roofline, PointsAndRoofsAreParsedOrRefused) {
  const RooflinePoint point = parse_point("name=g,flops=2e9,bytes=1e6,l2=4e6,us=5,dtype=bf16");
  EXPECT_EQ(point.name, "g");
  EXPECT_EQ(point.traffic[0].level, "dram");
  EXPECT_EQ(point.traffic[1].bytes, 4e6);
  EXPECT_DOUBLE_EQ(point.seconds, 5e-6);
  for (const char* bad : {"", "flops", "flops=x", "bytes=3", "flops=-1", "flops=1,bytes=nan"})
    EXPECT_THROW(parse_point(bad), UsageError) << bad;
  EXPECT_THROW(data_sheet("tpu"), UsageError);
  EXPECT_FALSE(data_sheet("h200").measured);
  for (const char* bad :
      {"{}", "[]", R"({"memory":{"dram":0}})", R"({"memory":{"dram":"fast"}})", R"({"math":[1]})"})
    EXPECT_THROW(roofs_from_json(parse_json(bad, "r"), "r"), Error) << bad;
}

TEST(Roofline, ARunOfTheLabGivesRoofsPointsAndCounters) {
  const Json run = parse_json(R"({
    "provenance": {"hardware": "a card", "time": "2026-01-31"},
    "roofs": [{"domain": "cuda", "roof": "DRAM", "rate": 4e12}, {"domain": "cuda", "roof": "FP32", "rate": 8e13},
              {"domain": "cuda", "roof": "launch", "rate": 3e5}, {"domain": "cpu", "roof": "DRAM", "rate": 1e11}],
    "experiments": [{"id": "ch09/fusion", "domain": "cuda", "sizes": [{"size": "big", "variants": [
      {"name": "plain", "verdict": "baseline", "median_s": 1e-3, "flops": 1e9, "bytes": 3.6e9, "roof": "DRAM"},
      {"name": "broken", "verdict": "wrong", "median_s": 1e-6, "flops": 1e9, "bytes": 1, "roof": "DRAM"},
      {"name": "absent", "verdict": "skipped"}]}]}]})",
      "run");
  ASSERT_TRUE(is_lab_run(run));
  const RoofSet roofs = roofs_of_run(run, "", "run");
  EXPECT_TRUE(roofs.measured);
  EXPECT_EQ(roofs.memory.size(), 1u);
  EXPECT_EQ(roofs.math.size(), 1u);
  EXPECT_EQ(roofs_of_run(run, "cpu", "run").level("dram")->bytes_per_s, 1e11);
  const auto points = points_of_run(run, "cuda", "run");
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].name, "ch09/fusion big plain");
  EXPECT_EQ(read_point(roofs, points[0]).limit, "dram bandwidth");
  const auto counters = counters_of_run(run, "run");
  ASSERT_EQ(counters.size(), 1u);
  EXPECT_DOUBLE_EQ(*counters[0]["dram_pct"], 90);
  EXPECT_EQ(diagnose(counters[0]).regime, Regime::kBandwidth);
  EXPECT_THROW(roofs_of_run(parse_json(R"({"roofs":[]})", "r"), "", "r"), Error);
  EXPECT_THROW(counters_of_run(parse_json(R"({"experiments":[3]})", "r"), "r"), Error);
}

}  // namespace
}  // namespace cheetah::analysis
