// SPDX-License-Identifier: MIT
#include "cluster/policy/admission.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "cluster/policy/policy_fixture.h"

namespace cheetah::cluster {
namespace {

using std::chrono::milliseconds;
constexpr Time kStart{std::chrono::hours(1)};

QosConfig two_tiers() {
  QosConfig qos;
  qos.classes = {
      {.name = "premium", .reserved = 0.2, .priority = 100, .ttft_slo_ms = 1000, .reject_early = false},
      {.name = "free", .priority = 10, .ttft_slo_ms = 300}};
  qos.matches = {{.header = "X-Customer-Tier", .value = "premium", .qos_class = "premium"},
      {.value = "acme", .qos_class = "premium"}};
  qos.default_class = "free";
  return qos;
}

class Admission : public testing::Test {
 protected:
  AdmissionDecision ask(int class_index, int64_t prompt = 1000) {
    its().shares.reconfigure(qos.classes, qos.borrow_limit);
    AdmissionRequest request{
        .route = prompt_of(prompt), .tenant = "t", .max_output = 64, .class_index = class_index};
    return admit(view, request, qos, routing, now, state);
  }
  ModelState& its() { return state.models["m"]; }
  ClusterView view = small_cluster(1, 2);
  QosConfig qos = two_tiers();
  RoutingConfig routing;
  AdmissionState state;
  Time now = kStart;
};

TEST_F(Admission, TheFirstMatchingRuleGivesTheClass) {
  EXPECT_EQ(class_of({{"x-customer-tier", "premium"}}, "", qos), 0);
  EXPECT_EQ(class_of({{"x-customer-tier", "Premium"}}, "", qos), 1);
  EXPECT_EQ(class_of({}, "acme", qos), 0);
  EXPECT_EQ(class_of({{"other", "premium"}}, "someone", qos), 1);
}

TEST_F(Admission, AcceptsWhatWillBeInTime) {
  const AdmissionDecision decision = ask(1);
  EXPECT_EQ(decision.verdict, Verdict::kAccept);
  EXPECT_NEAR(decision.prediction.ttft_ms, 110, 0.1);  // 1000 tokens at 100 us, one step of 10 ms
  EXPECT_EQ(its().shares.in_use(1), 1);
  finish("t", decision, 0, qos, state);
  EXPECT_EQ(its().shares.in_use(1), 0);
}

TEST_F(Admission, RefusesEarlyWhatWillBeLateUnlessItsClassWaits) {
  for (WorkerView& w : view.workers) w.load.prefill_tokens = 5000;
  const AdmissionDecision low = ask(1);
  EXPECT_EQ(low.verdict, Verdict::kReject);
  EXPECT_EQ(low.reason, RejectReason::kTtftPredicted);
  EXPECT_EQ(http_status(low.reason), 503);
  EXPECT_GE(low.retry_after_s, 1);
  EXPECT_EQ(ask(0).verdict, Verdict::kAccept);
  EXPECT_EQ(its().shares.in_use(1), 0);
}

TEST_F(Admission, TheUrgentDoNotWaitForOthers) {
  qos.classes[0].reject_early = true;
  qos.classes[0].ttft_slo_ms = 300;
  for (int i = 0; i < 9; ++i) ASSERT_EQ(ask(1).verdict, Verdict::kAccept);
  ASSERT_EQ(ask(0).verdict, Verdict::kAccept);
  for (WorkerView& w : view.workers)
    w.load.prefill_tokens = 5000, w.load.running = 16, w.load.decode_tokens = 10'000;
  EXPECT_EQ(ask(1).verdict, Verdict::kReject);
  const AdmissionDecision premium = ask(0);
  EXPECT_EQ(premium.verdict, Verdict::kAccept) << name_of(premium.reason);
  EXPECT_LT(premium.prediction.wait_ms, 100);  // a tenth of what is in use is as urgent
}

TEST_F(Admission, WhatWouldBeLateOnAnIdleClusterIsNotRefusedForThat) {
  EXPECT_EQ(ask(1, 20'000).verdict, Verdict::kAccept);  // two seconds of work with a target of 300 ms
  for (WorkerView& w : view.workers) w.load.prefill_tokens = 1000;
  EXPECT_EQ(ask(1, 20'000).reason, RejectReason::kTtftPredicted);
}

TEST_F(Admission, NobodyWaitsLongerThanTheLongestQueueTime) {
  for (WorkerView& w : view.workers) w.load.prefill_tokens = 500'000;
  EXPECT_EQ(ask(0).reason, RejectReason::kQueueTime);
}

TEST_F(Admission, LooksAtTheDecodeLoadWhenThePromptWillBeDone) {
  qos.classes[1].ttft_slo_ms = 60'000;
  qos.max_decode_share = 0.9;
  for (WorkerView& w : view.workers) w.load.running = 16, w.load.decode_tokens = 16 * 1000;
  EXPECT_EQ(ask(1).reason, RejectReason::kDecodeShare);
  // The same load, but all of it will have gone when the prompt is computed.
  for (WorkerView& w : view.workers) w.load.decode_tokens = 16 * 4;
  EXPECT_EQ(ask(1).verdict, Verdict::kAccept);
}

TEST_F(Admission, PredictsTheStepTimeOfTheGrownBatch) {
  for (int i = 0; i < 50; ++i)
    for (const double batch : {1.0, 8.0, 16.0}) its().estimates.steps.add(batch, 9000 + 1000 * batch, 0.1);
  EXPECT_NEAR(its().estimates.steps.us_per_sequence(), 1000, 1e-6);
  for (WorkerView& w : view.workers)
    w.load.running = 10, w.load.decode_step_us = 19'000, w.load.decode_tokens = 10'000;
  EXPECT_NEAR(ask(1, 16).prediction.tpot_ms, 20, 0.2);
  qos.classes[1].tpot_slo_ms = 19.5;
  EXPECT_EQ(ask(1, 16).reason, RejectReason::kTpotPredicted);
}

TEST_F(Admission, LearnsWhatThePredictionLeavesOut) {
  const double before = ask(1).prediction.ttft_ms;
  for (int i = 0; i < 50; ++i) its().ttft_ratios["free"].add(2, 0.2);
  EXPECT_NEAR(ask(1).prediction.ttft_ms, 2 * before, 1e-6);
}

TEST_F(Admission, OneFirstTokenThatWasKeptUpIsSoonForgotten) {
  const AdmissionDecision usual = ask(1);
  const auto came = [&](double times) {
    first_token_came(usual, times * usual.prediction.model_ttft_ms, qos, state);
  };
  for (int i = 0; i < 20; ++i) came(1);
  came(1000);
  EXPECT_LT(ask(1).prediction.ttft_ms, 2 * usual.prediction.ttft_ms);
  for (int i = 0; i < 60; ++i) came(1);
  EXPECT_NEAR(ask(1).prediction.ttft_ms, usual.prediction.ttft_ms, 0.3 * usual.prediction.ttft_ms);
}

TEST_F(Admission, DegradesRatherThanRefusesWhereTheClassSaysSo) {
  qos.classes[1].degrade = true;
  qos.degraded_output = 20;
  for (WorkerView& w : view.workers) w.load.prefill_tokens = 3000;
  const AdmissionDecision lighter = ask(1);
  EXPECT_EQ(lighter.verdict, Verdict::kDegrade);
  EXPECT_EQ(lighter.degradation, (Degradation{.max_output = 20, .no_remote_prefill = true}));
  for (WorkerView& w : view.workers) w.load.prefill_tokens = 9000;
  EXPECT_EQ(ask(1).verdict, Verdict::kReject);
}

TEST_F(Admission, EveryReasonForARefusalHasItsCase) {
  view.prefill_breaker_open = true;
  for (WorkerView& w : view.workers) w.load.prefill_tokens = 5000;
  EXPECT_EQ(ask(1).reason, RejectReason::kPrefillBreaker);
  view = small_cluster(1, 0);
  const AdmissionDecision waits = ask(1);
  EXPECT_EQ(waits.reason, RejectReason::kNoWorker);
  EXPECT_EQ(waits.verdict, Verdict::kAccept) << "not refused: it waits, within its share and its quota";
  finish("t", waits, waits.quota_tokens, qos, state);
  view = small_cluster(1, 2);
  qos.quotas = {{.tenant = "*", .tokens_per_s = 100, .burst_tokens = 1500}};
  EXPECT_EQ(ask(1).verdict, Verdict::kAccept);
  const AdmissionDecision poor = ask(1);
  EXPECT_EQ(poor.reason, RejectReason::kQuota);
  EXPECT_EQ(http_status(poor.reason), 429);
  EXPECT_NEAR(poor.retry_after_s, std::ceil((1064 - (1500 - 1064)) / 100.0), 1e-9);
  qos.quotas.clear();
  for (int i = 0; i < 5; ++i) its().decode_breaker.failed(now, qos.decode_breaker);
  EXPECT_EQ(ask(1).reason, RejectReason::kDecodeBreaker);
  EXPECT_EQ(ask(1).retry_after_s, 5);
  its().decode_breaker = {};
  qos.queue_places = 0;
  qos.borrow_limit = 0;
  int accepted = 0;
  while (ask(1).verdict == Verdict::kAccept && accepted < 100) ++accepted;
  EXPECT_EQ(accepted + 1, 32 - 6);  // two workers of 16 without the fifth that is premium's; one is in use
  EXPECT_EQ(ask(1).reason, RejectReason::kShare);
  EXPECT_EQ(ask(0).verdict, Verdict::kAccept);
}

TEST_F(Admission, WithinItsReservationARequestIsMoreUrgentThanAllThatAreNot) {
  qos.classes[0].priority = qos.classes[1].priority = 0;  // only what is reserved tells them apart
  int own = 0;
  while (ask(0).own_place) ++own;
  EXPECT_EQ(own, 6) << "a fifth of the 32 places to run in, however many may wait";
  const AdmissionDecision borrowed = ask(0), other = ask(1);
  EXPECT_EQ(borrowed.verdict, Verdict::kAccept);
  EXPECT_EQ(urgency_of(borrowed, qos.classes[0]), 0);
  EXPECT_EQ(urgency_of(other, qos.classes[1]), 0);
  AdmissionDecision first = borrowed;
  first.own_place = true;
  EXPECT_GT(urgency_of(first, qos.classes[0]), urgency_of(other, qos.classes[1]));
}

class TwoModels : public Admission {
 protected:
  TwoModels() {
    view.workers.push_back(ready_worker(300, Role::kBoth));
    view.workers.back().descriptor.model = "small";
    qos.classes[1].degrade_to = "s";
  }
  AdmissionDecision ask_either(int class_index) {
    AdmissionRequest request{.route = prompt_of(1000),
        .tenant = "t",
        .max_output = 64,
        .class_index = class_index,
        .other_model = "small"};
    return admit(view, request, qos, routing, now, state);
  }
  void be_busy(const std::string& model) {
    for (WorkerView& w : view.workers)
      if (w.descriptor.model == model) w.load.prefill_tokens = 50'000;
  }
};

TEST_F(TwoModels, ABusyModelsRequestsGoToTheOtherAndTakeNothingHere) {
  EXPECT_EQ(ask_either(1).verdict, Verdict::kAccept) << "as long as there is time";
  be_busy("m");
  const AdmissionDecision decision = ask_either(1);
  EXPECT_EQ(decision.verdict, Verdict::kOtherModel);
  EXPECT_EQ(decision.reason, RejectReason::kTtftPredicted);
  EXPECT_EQ(its().shares.total_in_use(), 1);
  EXPECT_EQ(state.models["small"].shares.total_in_use(), 0) << "the request itself takes its place there";
  be_busy("small");
  EXPECT_EQ(ask_either(1).verdict, Verdict::kReject) << "no better there";
}

TEST_F(TwoModels, OneThatWouldOnlyWaitGoesToTheOtherTooButNotWithinItsReservation) {
  qos.classes[1].reject_early = false;
  be_busy("m");
  EXPECT_EQ(ask_either(1).verdict, Verdict::kOtherModel);
  EXPECT_EQ(ask_either(0).verdict, Verdict::kAccept) << "within its reservation";
  qos.enabled = false;
  EXPECT_EQ(ask_either(1).verdict, Verdict::kAccept);
}

TEST_F(TwoModels, AQuotaHoldsForAllModels) {
  qos.quotas = {{.tenant = "*", .tokens_per_s = 1, .burst_tokens = 1100}};
  EXPECT_EQ(ask_either(1).verdict, Verdict::kAccept);
  EXPECT_EQ(ask_either(1).reason, RejectReason::kQuota);
  EXPECT_EQ(ask_either(1).verdict, Verdict::kReject);
}

TEST_F(TwoModels, WithoutAWorkerOfOneTheOtherAnswers) {
  std::erase_if(view.workers, [](const WorkerView& w) { return w.descriptor.model == "m"; });
  const AdmissionDecision decision = ask_either(1);
  EXPECT_EQ(decision.verdict, Verdict::kOtherModel);
  EXPECT_EQ(decision.reason, RejectReason::kNoWorker);
}

TEST_F(Admission, TurnedOffAcceptsWhateverHasAWorker) {
  qos.enabled = false;
  for (WorkerView& w : view.workers) w.load.prefill_tokens = 5'000'000;
  EXPECT_EQ(ask(1).verdict, Verdict::kAccept);
  view.workers.clear();
  EXPECT_EQ(ask(1).reason, RejectReason::kNoWorker);
}

TEST(Quotas, ABucketRefillsAndAnOversizedRequestPassesWhenItIsFull) {
  QosConfig qos;
  qos.quotas = {{.tenant = "a", .tokens_per_s = 10, .burst_tokens = 100}};
  Quotas quotas;
  EXPECT_FALSE(quotas.take("a", 500, kStart, qos));  // larger than the burst: passes, in debt
  EXPECT_TRUE(quotas.take("a", 1, kStart + milliseconds(39'000), qos));
  EXPECT_FALSE(quotas.take("a", 1, kStart + milliseconds(40'200), qos));
  EXPECT_FALSE(quotas.take("b", 1 << 30, kStart, qos));  // without a quota
  quotas.give_back("a", 60, qos);
  EXPECT_FALSE(quotas.take("a", 50, kStart + milliseconds(40'200), qos));
}

// As if there were one bucket, but for the moment that news take.
TEST(Quotas, RoutersThatTellEachOtherShareOneBucket) {
  QosConfig qos;
  qos.quotas = {{.tenant = "*", .tokens_per_s = 10, .burst_tokens = 100}};
  Quotas a, b, late;
  const auto tell = [&](Quotas& from, Quotas& to, Time now) {
    for (const QuotaNews::Entry& entry : from.untold()) to.hear(entry, now, qos);
  };
  EXPECT_FALSE(b.take("t", 10, kStart, qos));
  tell(b, a, kStart);
  EXPECT_FALSE(a.take("t", 60, kStart, qos));
  tell(a, b, kStart);
  EXPECT_TRUE(b.take("t", 31, kStart, qos)) << "30 are left";
  EXPECT_FALSE(b.take("t", 30, kStart, qos));
  tell(b, a, kStart);
  EXPECT_TRUE(a.untold().empty()) << "what others took is not told again";
  EXPECT_TRUE(a.take("t", 1, kStart, qos));
  b.give_back("t", 20, qos);
  tell(b, a, kStart);
  EXPECT_FALSE(a.take("t", 20, kStart, qos));
  // One that starts has what the others say is left.
  for (const QuotaNews::Entry& entry : a.all()) late.hear(entry, kStart, qos);
  EXPECT_TRUE(late.take("t", 1, kStart, qos));
  EXPECT_FALSE(late.take("t", 10, kStart + milliseconds(1000), qos)) << "and fills again";
  EXPECT_FALSE(late.take("u", 100, kStart, qos)) << "of another tenant nobody has said anything";
}

TEST(Quotas, RemembersABoundedNumberOfTenants) {
  QosConfig qos;
  qos.quotas = {{.tenant = "*", .tokens_per_s = 1, .burst_tokens = 1}};
  qos.max_tenants = 10;
  Quotas quotas;
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(quotas.take(std::to_string(i), 1, kStart, qos));
  EXPECT_EQ(quotas.num_tenants(), 10);
  EXPECT_TRUE(quotas.take("99", 1, kStart, qos));
}

TEST(Breaker, OpensAfterFailuresTriesAndCloses) {
  const BreakerConfig config{.failures = 3, .open_ms = 1000, .probes = 2};
  Breaker breaker;
  for (int i = 0; i < 2; ++i) breaker.failed(kStart, config);
  breaker.succeeded(kStart, config);  // not in a row
  for (int i = 0; i < 2; ++i) breaker.failed(kStart, config);
  EXPECT_EQ(breaker.state(kStart), BreakerState::kClosed);
  breaker.failed(kStart, config);
  EXPECT_EQ(breaker.state(kStart), BreakerState::kOpen);
  EXPECT_FALSE(breaker.allow(kStart + milliseconds(999), config));
  const Time half = kStart + milliseconds(1000);
  EXPECT_TRUE(breaker.allow(half, config));
  EXPECT_TRUE(breaker.allow(half, config));
  EXPECT_FALSE(breaker.allow(half, config));
  breaker.succeeded(half, config);
  EXPECT_EQ(breaker.state(half), BreakerState::kHalfOpen);
  breaker.succeeded(half, config);
  EXPECT_EQ(breaker.state(half), BreakerState::kClosed);
}

TEST(Breaker, AFailedTryKeepsItOpenTwiceAsLong) {
  const BreakerConfig config{.failures = 1, .open_ms = 1000, .max_open_ms = 3000};
  Breaker breaker;
  breaker.failed(kStart, config);
  Time now = kStart + milliseconds(1000);
  breaker.failed(now, config);
  EXPECT_EQ(breaker.opens_in(now, config), milliseconds(2000));
  now += milliseconds(2000);
  breaker.failed(now, config);
  EXPECT_EQ(breaker.opens_in(now, config), milliseconds(3000));
}

TEST(Breaker, TriesWithoutAnOutcomeDoNotKeepItHalfOpenForEver) {
  const BreakerConfig config{.failures = 1, .open_ms = 1000, .probes = 1};
  Breaker breaker;
  breaker.failed(kStart, config);
  const Time half = kStart + milliseconds(1000);
  EXPECT_TRUE(breaker.allow(half, config));
  EXPECT_EQ(breaker.opens_in(half, config), milliseconds(1000)) << "when the next may try";
  EXPECT_FALSE(breaker.allow(half + milliseconds(999), config));
  EXPECT_TRUE(breaker.allow(half + milliseconds(1000), config));
}

TEST(Breaker, OpensWhenTheQueueStaysDeep) {
  const BreakerConfig config{.max_depth = 10, .depth_ms = 500};
  Breaker breaker;
  breaker.depth_is(11, kStart, config);
  breaker.depth_is(9, kStart + milliseconds(400), config);
  breaker.depth_is(11, kStart + milliseconds(600), config);
  EXPECT_EQ(breaker.state(kStart + milliseconds(600)), BreakerState::kClosed);
  breaker.depth_is(11, kStart + milliseconds(1100), config);
  EXPECT_EQ(breaker.state(kStart + milliseconds(1100)), BreakerState::kOpen);
}

// More work in front of a request never makes it look faster, and what is refused with a target is refused
// with every stricter one.
TEST(AdmissionProperties, AreMonotone) {
  EXPECT_TRUE(rc::check([] {
    ClusterView view = small_cluster(1, 2);
    for (WorkerView& w : view.workers) {
      w.load.prefill_tokens = *rc::gen::inRange(0, 5000);
      w.load.running = *rc::gen::inRange(0, 20);
      w.load.decode_tokens = *rc::gen::inRange(0, 5000);
    }
    const int64_t prompt = *rc::gen::inRange(17, 3000);  // up to a page they stay local
    RoutingConfig routing;
    routing.cost.interference = routing.cost.margin_ms =
        0;  // else the way with the longer time may be preferred
    const Prediction before = predict(view, prompt_of(prompt), routing, {});
    const Prediction longer = predict(view, prompt_of(prompt + *rc::gen::inRange(0, 500)), routing, {});
    RC_ASSERT(longer.ttft_ms >= before.ttft_ms);
    ClusterView busier = view;
    for (WorkerView& w : busier.workers) w.load.prefill_tokens += *rc::gen::inRange(0, 2000);
    busier.prefill_queue.tokens += *rc::gen::inRange(0, 2000);
    RC_ASSERT(predict(busier, prompt_of(prompt), routing, {}).ttft_ms >= before.ttft_ms);
    const QosConfig qos;
    QosClass strict{.ttft_slo_ms = static_cast<double>(*rc::gen::inRange(1, 1000)),
        .tpot_slo_ms = static_cast<double>(*rc::gen::inRange(1, 30))};
    QosClass loose = strict;
    loose.ttft_slo_ms += *rc::gen::inRange(0, 500);
    loose.tpot_slo_ms += *rc::gen::inRange(0, 20);
    if (judge(before, loose, qos) != RejectReason::kNone)
      RC_ASSERT(judge(before, strict, qos) != RejectReason::kNone);
  }));
}

}  // namespace
}  // namespace cheetah::cluster
