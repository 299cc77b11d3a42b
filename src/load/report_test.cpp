// SPDX-License-Identifier: MIT
#include "load/report.h"

#include <gtest/gtest.h>

namespace cheetah {
namespace {

LoadStep step_at(double rate, double ttft_s) {
  LoadStep step{.rate = rate};
  for (int i = 0; i < 20; ++i) {
    RequestRecord r;
    r.scheduled_s = r.due_s = r.sent_s = i / rate;
    r.first_s = r.scheduled_s + ttft_s;
    r.last_s = r.first_s + 0.2;
    r.done_s = r.last_s;
    r.gaps_s = {0.1f, 0.1f};
    r.events = r.asked_tokens = 3;
    r.output_tokens = 3;
    step.records.push_back(r);
  }
  step.summary = summarize(step.records, {.ttft_s = 0.5}, rate);
  return step;
}

LoadReport report_of(std::vector<LoadStep> steps, bool is_sweep) {
  return {.provenance = {{"version", "1"}},
      .setup = {{"server", "http://host/v1"}, {"model", "<m&m>"}},
      .slo = {.ttft_s = 0.5},
      .steps = std::move(steps),
      .is_sweep = is_sweep};
}

TEST(Report, OfOneRunShowsBothViewsAndDefinesItsWords) {
  const LoadReport report = report_of({step_at(2, 0.1)}, false);
  const std::string text = report_text(report);
  for (const char* part : {"TTFT from schedule", "TTFT from send", "goodput", "2.041 requests/s",
           "TTFT ≤ 500 ms", "coordinated omission"})
    EXPECT_NE(text.find(part), std::string::npos) << part;
  const Json json = report_json(report);
  EXPECT_EQ(json["kind"], "bench-serve");
  EXPECT_NEAR(json["steps"][0]["latency"]["ttft_s"]["p99"].get<double>(), 0.1, 1e-9);
  EXPECT_EQ(json["steps"][0]["records"].size(), 20u);
  EXPECT_FALSE(json.contains("knee_per_s"));
  EXPECT_EQ(json["definitions"].size(), definitions().size());
}

TEST(Report, OfASweepMarksTheKnee) {
  const LoadReport report = report_of({step_at(1, 0.1), step_at(2, 0.2), step_at(4, 0.9)}, true);
  EXPECT_EQ(report.knee(), 1u);
  EXPECT_NE(report_text(report).find("knee: 2 requests/s"), std::string::npos);
  EXPECT_EQ(report_json(report)["knee_per_s"], 2.0);
  EXPECT_NE(report_html(report).find("&quot;label&quot;:&quot;knee&quot;"), std::string::npos);
  const LoadReport hopeless = report_of({step_at(4, 0.9)}, true);
  EXPECT_NE(report_text(hopeless).find("start lower"), std::string::npos);
  EXPECT_TRUE(report_json(hopeless)["knee_per_s"].is_null());
}

TEST(Report, OfARunWithoutAnswersIsStillAReport) {
  LoadStep step{.concurrency = 4};
  RequestRecord refused;
  refused.failure = RequestFailure::kConnect;
  refused.detail = "Connection refused";
  refused.done_s = 0.1;
  step.records = {refused};
  step.summary = summarize(step.records, {}, {});
  const LoadReport report = report_of({step}, false);
  EXPECT_NE(report_text(report).find("no connection"), std::string::npos);
  EXPECT_TRUE(report_json(report)["steps"][0]["latency"]["ttft_s"].is_null());
  EXPECT_NE(report_html(report).find("nothing to plot"), std::string::npos);
}

TEST(Report, AsAPageNamesModelAndObjectiveAndEscapesWhatItShows) {
  const std::string page = report_html(report_of({step_at(2, 0.1)}, false));
  EXPECT_EQ(page.find("<m&m>"), std::string::npos);
  EXPECT_NE(page.find("<title>Load test: &lt;m&amp;m&gt;"), std::string::npos);
  EXPECT_NE(page.find("objective 500.0 ms"), std::string::npos);
}

TEST(Report, OfASweepSaysAWarningOnceWithItsRates) {
  LoadReport report = report_of({step_at(1, 0.1), step_at(2, 0.2), step_at(4, 0.9)}, true);
  for (LoadStep& step : report.steps) step.client.cpu_share = 0.9 + *step.rate / 100;
  const std::string page = report_html(report);
  EXPECT_NE(page.find("At 1/s, 2/s, 4/s: the client used 91 % of its core"), std::string::npos);
  EXPECT_EQ(page.find("of its core"), page.rfind("of its core"));
}

}  // namespace
}  // namespace cheetah
