// SPDX-License-Identifier: MIT
#include "load/summary.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "base/error.h"
#include "base/statistics.h"
#include "load/sweep.h"

namespace cheetah {
namespace {

// Scheduled at `at`, sent `lag` later, first token 100 ms after that, ten tokens 20 ms apart.
RequestRecord answered(double at, double lag = 0) {
  RequestRecord record;
  record.scheduled_s = record.due_s = at;
  record.sent_s = at + lag;
  record.first_s = record.sent_s + 0.1;
  record.last_s = record.first_s + 9 * 0.02;
  record.done_s = record.last_s + 0.01;
  record.gaps_s.assign(9, 0.02f);
  record.events = 10;
  record.asked_tokens = 10;
  record.output_tokens = 10;
  record.prompt_tokens = 30;
  return record;
}

RequestRecord failed(double at, RequestFailure failure, int status = 0) {
  RequestRecord record;
  record.scheduled_s = record.due_s = record.sent_s = at;
  record.done_s = at + 0.5;
  record.failure = failure;
  record.http_status = status;
  record.detail = "why";
  return record;
}

TEST(Distribution, HoldsTheQuantilesOfKnownSamples) {
  std::vector<double> samples(101);
  std::iota(samples.rbegin(), samples.rend(), 0.0);
  const Distribution d = describe(samples);
  EXPECT_EQ(d.count, 101);
  EXPECT_DOUBLE_EQ(d.mean, 50);
  EXPECT_DOUBLE_EQ(d.min, 0);
  EXPECT_DOUBLE_EQ(d.p50, 50);
  EXPECT_DOUBLE_EQ(d.p90, 90);
  EXPECT_DOUBLE_EQ(d.p95, 95);
  EXPECT_DOUBLE_EQ(d.p99, 99);
  EXPECT_DOUBLE_EQ(d.max, 100);
  EXPECT_EQ(describe({}).count, 0);
  EXPECT_EQ(describe({3}).p99, 3);
}

RC_GTEST_PROP(Distribution, IsOrderedAndAgreesWithQuantile, (const std::vector<double>& any)) {
  RC_PRE(!any.empty());
  const Distribution d = describe(any);
  RC_ASSERT(d.min <= d.p50 && d.p50 <= d.p90 && d.p90 <= d.p95 && d.p95 <= d.p99 && d.p99 <= d.max);
  RC_ASSERT(d.p90 == quantile(any, 0.9));
}

TEST(Summary, OfPunctualRequestsHasOneViewOfLatency) {
  const std::vector records = {answered(0), answered(1), answered(2)};
  const LoadSummary s = summarize(records, {}, 1.0);
  EXPECT_EQ(s.requests, 3);
  EXPECT_EQ(s.completed, 3);
  EXPECT_NEAR(s.duration_s, 2.29, 1e-9);
  EXPECT_NEAR(s.ttft.p50, 0.1, 1e-9);
  EXPECT_NEAR(s.ttft_from_sent.p99, 0.1, 1e-9);
  EXPECT_NEAR(s.tpot.mean, 0.02, 1e-9);
  EXPECT_NEAR(s.itl.p99, 0.02, 1e-6);
  EXPECT_EQ(s.itl.count, 27);
  EXPECT_NEAR(s.e2e.max, 0.29, 1e-9);
  EXPECT_NEAR(s.output_rate, 30 / 2.29, 1e-9);
  EXPECT_NEAR(s.total_rate, 120 / 2.29, 1e-9);
  EXPECT_NEAR(s.mean_in_flight, 3 * 0.29 / 2.29, 1e-9);
  EXPECT_TRUE(warnings_of(s, {}).empty());
}

TEST(Summary, CountsTheTimeARequestWaitedToBeSent) {
  // A stalled server holds the second request back for 5 s: only the scheduled view shows it.
  RequestRecord late = answered(1, 5);
  late.due_s = late.sent_s;  // a --concurrency slot came free then: the client is not to blame
  const std::vector records = {answered(0), late};
  const LoadSummary s = summarize(records, {.ttft_s = 1.0}, 1.0);
  EXPECT_NEAR(s.ttft.max, 5.1, 1e-9);
  EXPECT_NEAR(s.ttft_from_sent.max, 0.1, 1e-9);
  EXPECT_NEAR(s.e2e.max - s.e2e_from_sent.max, 5, 1e-9);
  EXPECT_EQ(s.good, 1);
  EXPECT_EQ(s.send_lag.max, 0);
}

TEST(Summary, GoodputIsTheShareThatMeetsEverySlo) {
  std::vector<RequestRecord> records;
  for (int i = 0; i < 10; ++i) records.push_back(answered(i));
  records[1].first_s += 0.2;  // slow to begin
  records[1].last_s += 0.2;
  records[2].last_s += 9 * 0.1;  // slow to go on
  records[3] = failed(3, RequestFailure::kTimeout);
  const auto good = [&](Slo slo) { return summarize(records, slo, 2.0).good; };
  EXPECT_EQ(good({}), 9);
  EXPECT_EQ(good({.ttft_s = 0.15}), 8);
  EXPECT_EQ(good({.tpot_s = 0.05}), 8);
  const LoadSummary open = summarize(records, {.ttft_s = 0.15, .tpot_s = 0.05}, 2.0);
  EXPECT_EQ(open.good, 7);
  EXPECT_NEAR(open.attainment, 0.7, 1e-12);
  EXPECT_NEAR(open.goodput, 7 / open.duration_s, 1e-12);
  EXPECT_LE(open.goodput, open.request_rate);
  const LoadSummary closed = summarize(records, {.ttft_s = 0.15, .tpot_s = 0.05}, std::nullopt);
  EXPECT_NEAR(closed.goodput, 7 / closed.duration_s, 1e-12);
}

TEST(Summary, AnAnswerOfOneTokenHasNoTpotAndBreaksNone) {
  RequestRecord record = answered(0);
  record.output_tokens = 1;
  record.last_s = record.first_s;
  record.gaps_s.clear();
  EXPECT_TRUE(meets(record, {.tpot_s = 1e-6}));
  EXPECT_EQ(summarize(std::vector{record}, {}, {}).tpot.count, 0);
}

TEST(Summary, CountsFailuresByKindAndKeepsThemOutOfLatencies) {
  const std::vector records = {answered(0), failed(1, RequestFailure::kStatus, 503),
      failed(2, RequestFailure::kStatus, 429), failed(3, RequestFailure::kStatus, 503),
      failed(4, RequestFailure::kCut), failed(5, RequestFailure::kInterrupted)};
  const LoadSummary s = summarize(records, {}, 1.0);
  EXPECT_EQ(s.requests, 5);
  EXPECT_EQ(s.completed, 1);
  EXPECT_EQ(s.interrupted, 1);
  EXPECT_EQ(
      s.failures, (std::map<std::string, int64_t>{{"HTTP 429", 1}, {"HTTP 503", 2}, {"answer cut off", 1}}));
  EXPECT_EQ(s.first_failure.at("answer cut off"), "why");
  EXPECT_EQ(s.ttft.count, 1);
  EXPECT_NEAR(s.goodput, 1 / s.duration_s, 1e-12);
  EXPECT_NEAR(summarize(records, {.ttft_s = 1}, 1.0).goodput, 1 / s.duration_s, 1e-12);
  EXPECT_EQ(warnings_of(s, {}).size(), 2u);
}

TEST(Summary, OfNothingIsAllZero) {
  const LoadSummary s = summarize({}, {}, {});
  EXPECT_EQ(s.requests, 0);
  EXPECT_EQ(s.goodput, 0);
  EXPECT_EQ(s.duration_s, 0);
  EXPECT_TRUE(warnings_of(s, {}).empty());
}

TEST(Summary, TokensWithoutUsageAreTheEvents) {
  RequestRecord record = answered(0);
  record.output_tokens.reset();
  const LoadSummary s = summarize(std::vector{record}, {}, {});
  EXPECT_EQ(s.output_tokens, 10);
  EXPECT_EQ(s.without_usage, 1);
  EXPECT_EQ(warnings_of(s, {}).size(), 1u);
}

TEST(Warnings, TellOfALateOrBusyClientOfMergedEventsAndOfShortAnswers) {
  const LoadSummary late = summarize(std::vector{answered(0, 0.05)}, {}, {});
  EXPECT_EQ(warnings_of(late, {}).size(), 1u);
  EXPECT_EQ(warnings_of(late, {.cpu_share = 0.95}).size(), 2u);
  RequestRecord merged = answered(0);
  merged.events = 2;
  EXPECT_EQ(warnings_of(summarize(std::vector{merged}, {}, {}), {}).size(), 1u);
  RequestRecord brief = answered(0);
  brief.asked_tokens = 100;
  EXPECT_EQ(warnings_of(summarize(std::vector{brief}, {}, {}), {}).size(), 1u);
}

SweepPoint point(double rate, double attainment) {
  SweepPoint made{.rate = rate, .summary = {}};
  made.summary.attainment = attainment;
  return made;
}

TEST(Sweep, RatesSpanTheRangeEvenlyOnALogarithmicScale) {
  const auto rates = sweep_rates({1, 16, 5});
  ASSERT_EQ(rates.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_NEAR(rates[i], 1 << i, 1e-9);
  EXPECT_EQ(sweep_rates({2, 3, 1}), std::vector{3.0});
}

TEST(Sweep, TheKneeIsTheHighestRateServed) {
  EXPECT_EQ(find_knee(std::vector{point(1, 1), point(2, 0.95), point(4, 0.9), point(8, 0.5)}), 2u);
  EXPECT_EQ(find_knee(std::vector{point(1, 1), point(2, 1)}), 1u);
  EXPECT_EQ(find_knee(std::vector{point(1, 0.5)}), std::nullopt);
  EXPECT_EQ(find_knee({}), std::nullopt);
}

TEST(Sweep, ReadsWhatAPersonTypes) {
  const SweepPlan plan = sweep_plan_from("0.5:8:5");
  EXPECT_EQ(plan.low, 0.5);
  EXPECT_EQ(plan.high, 8);
  EXPECT_EQ(plan.steps, 5);
  for (const char* bad :
      {"", "1", "1:2", "2:1:3", "0:1:3", "-1:1:3", "1:inf:3", "1:2:0", "1:2:3x", "1:2:9999", "nan:2:3"})
    EXPECT_THROW(sweep_plan_from(bad), UsageError) << bad;
}

}  // namespace
}  // namespace cheetah
