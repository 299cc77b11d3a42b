// SPDX-License-Identifier: MIT
#include "lab/history.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "base/temp_dir.h"
#include "lab/compare.h"
#include "lab/report/html.h"
#include "lab/report/text.h"
#include "lab/result_json.h"

namespace cheetah::lab {
namespace {

VariantResult timed(std::string name, double seconds, Verdict verdict = Verdict::kNeutral) {
  VariantResult v{.name = std::move(name), .verdict = verdict};
  v.median_s = seconds;
  v.spread = 0.01;
  v.num_samples = 9;
  v.speedup = {.ratio = 1e-3 / seconds, .low = 0.9e-3 / seconds, .high = 1.1e-3 / seconds};
  v.cost = {.flops = 2e6, .bytes = 1e6, .roof = Roof::kCoreDram};
  v.roof_rate = 1e10;
  v.roof_share = 1e-4 / seconds;
  return v;
}

// One experiment of two variants; the second takes `seconds`.
LabRun run_with(double seconds, Verdict verdict = Verdict::kNeutral) {
  LabRun run;
  run.provenance.time = "2026-01-31T12:00:00Z";
  run.provenance.hardware = "a processor, 2 cores";
  run.provenance.commit = "abc";
  run.roofs = {{.domain = Domain::kCpu, .roof = Roof::kCoreDram, .rate = 1e10, .other_rate = 9e9},
      {.domain = Domain::kCpu, .roof = Roof::kCoreFp32, .rate = 1e11}};
  ExperimentResult e;
  e.id = "cpu/test";
  e.title = "A <test>";
  e.question = "Is & kept?";
  e.claim = "Twice as fast.";
  e.claim_variant = "other";
  e.claim_speedup = 2;
  e.variants = {{.name = "plain", .idea = "a loop"}, {.name = "other", .idea = "another loop"}};
  e.disturbances = {"other processes used 1.5 of 2 cores"};
  for (const char* label : {"1K", "1M"}) {
    SizeResult size{.label = label,
        .variants = {timed("plain", 1e-3, Verdict::kBaseline), timed("other", seconds, verdict)}};
    for (VariantResult& v : size.variants) v.cost.bytes *= e.sizes.empty() ? 1 : 1000;
    size.detectable = 0.01;
    size.num_rounds = 9;
    e.sizes.push_back(std::move(size));
  }
  run.experiments.push_back(std::move(e));
  return run;
}

TEST(ResultJson, ARunComesBackAsItWas) {
  const LabRun run = run_with(0.5e-3, Verdict::kFaster);
  const Json json = run_json(run);
  EXPECT_EQ(run_json(run_from_json(json, "test")), json);
}

TEST(ResultJson, WhatIsNoResultSaysWhatIsMissing) {
  for (const char* text :
      {"{}", "[]", R"({"provenance":{}})", R"({"provenance":{"hardware":"x"},"experiments":3})",
          R"({"provenance":{"hardware":"x"},"experiments":[{"id":"a","title":"b","domain":"moon"}]})"})
    EXPECT_THROW(run_from_json(parse_json(text, "test"), "test"), Error) << text;
}

TEST(History, KeepsRunsAndGivesThemBack) {
  const TempDir folder;
  const std::string path = folder.path("deep/lab.sqlite");
  {
    History history(path);
    EXPECT_FALSE(history.newest());
    EXPECT_EQ(history.add(run_with(1e-3)), 1);
    EXPECT_EQ(history.add(run_with(2e-3, Verdict::kWrong)), 2);
  }
  const History history(path);
  EXPECT_EQ(history.newest(), 2);
  ASSERT_EQ(history.runs(10).size(), 2u);
  EXPECT_EQ(history.runs(10)[0].num_wrong, 2);
  EXPECT_EQ(history.runs(1).size(), 1u);
  EXPECT_EQ(run_json(history.run(1)), run_json(run_with(1e-3)));
  EXPECT_THROW(history.run(3), Error);
  EXPECT_EQ(history.times("cpu/test", "a processor, 2 cores").size(), 8u);
  EXPECT_TRUE(history.times("cpu/test", "another").empty());
}

TEST(History, ReadingMakesNothing) {
  const TempDir folder;
  EXPECT_THROW(History(folder.path("deep/lab.sqlite"), History::Mode::kRead), Error);
  EXPECT_FALSE(std::filesystem::exists(folder.path("deep")));
  History(folder.path("lab.sqlite")).add(run_with(1e-3));
  EXPECT_EQ(History(folder.path("lab.sqlite"), History::Mode::kRead).newest(), 1);
}

TEST(History, AFileThatIsNoDatabaseIsRefused) {
  const TempDir folder;
  const std::string path = folder.path("lab.sqlite");
  std::FILE* file = std::fopen(path.c_str(), "w");
  for (int i = 0; i < 1000; ++i) std::fputs("not a database ", file);
  std::fclose(file);
  EXPECT_THROW(History{path}, Error);
}

Change change_between(const LabRun& before, std::vector<LabRun> after, double threshold = 0.05) {
  const Comparison comparison = compare_runs({&before, 1}, after, threshold);
  return comparison.variants.at(0).variant == "other" ? comparison.variants.at(0).change : Change::kSame;
}

TEST(Compare, ATenthSlowerFailsAGateOfFivePercentAndPassesOneOfTwenty) {
  EXPECT_EQ(change_between(run_with(1e-3), {run_with(1.1e-3)}), Change::kSlower);
  EXPECT_EQ(change_between(run_with(1e-3), {run_with(1.1e-3)}, 0.2), Change::kSame);
  EXPECT_EQ(change_between(run_with(1.1e-3), {run_with(1e-3)}), Change::kFaster);
}

TEST(Compare, SlowerOnceIsNotSustained) {
  EXPECT_EQ(change_between(run_with(1e-3), {run_with(1.1e-3), run_with(1.0e-3)}), Change::kSame);
  EXPECT_EQ(change_between(run_with(1e-3), {run_with(1.1e-3), run_with(1.2e-3)}), Change::kSlower);
}

TEST(Compare, WhatBecameWrongIsBroken) {
  const LabRun before = run_with(1e-3), after = run_with(1e-3, Verdict::kWrong);
  const Comparison comparison = compare_runs({&before, 1}, {&after, 1}, 0.05);
  EXPECT_TRUE(comparison.has_regression());
  EXPECT_NE(comparison_text(comparison).find("BROKEN"), std::string::npos);
}

TEST(Compare, DifferentHardwareIsRefused) {
  const LabRun before = run_with(1e-3);
  LabRun after = before;
  after.provenance.hardware = "another processor";
  EXPECT_THROW(compare_runs({&before, 1}, {&after, 1}, 0.05), Error);
}

TEST(Compare, ThresholdsAreSharesOrPercent) {
  EXPECT_DOUBLE_EQ(parse_threshold("5%"), 0.05);
  EXPECT_DOUBLE_EQ(parse_threshold("0.1"), 0.1);
  for (const char* text : {"", "%", "-1%", "0", "x", "5 %", "nan", "1e9"})
    EXPECT_THROW(parse_threshold(text), UsageError) << text;
}

TEST(Report, HasPlotsAndNothingFromTheNetwork) {
  const std::string page = report_html(run_with(0.5e-3, Verdict::kFaster));
  const std::string html = page.substr(page.find("<body>"), page.find("<script") - page.find("<body>"));
  for (const char* part : {"&quot;bars&quot;", "&quot;series&quot;", "&quot;roof&quot;", "A &lt;test&gt;",
           "Is &amp; kept?", "other processes used"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  for (const char* part : {"https:", "<link", "src=", "A <test>", "nan", "inf\""})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
}

TEST(Report, TextNamesEveryVariantAndItsVerdict) {
  const std::string text = result_text(run_with(0.5e-3, Verdict::kFaster).experiments.at(0));
  for (const char* part : {"cpu/test", "plain", "other", "faster", "2.00x", "core DRAM"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Report, ANeutralVerdictOnALargeEffectSaysWhy) {
  ExperimentResult result = run_with(0.5e-3, Verdict::kNeutral).experiments.at(0);
  for (SizeResult& size : result.sizes) size.detectable = 1.4;
  EXPECT_NE(result_text(result).find("the baseline against itself differed by 140 %"), std::string::npos);
  const std::string clear = result_text(run_with(0.5e-3, Verdict::kFaster).experiments.at(0));
  EXPECT_EQ(clear.find("against itself"), std::string::npos);
}

}  // namespace
}  // namespace cheetah::lab
