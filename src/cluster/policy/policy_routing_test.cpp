// SPDX-License-Identifier: MIT
#include "cluster/policy/policy_routing.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "cluster/core/router_core.h"
#include "cluster/policy/policy_fixture.h"

namespace cheetah::cluster {
namespace {

using std::chrono::milliseconds;
constexpr Time kStart{std::chrono::hours(1)};

KnownWorker known(uint64_t number, Role role) {
  const WorkerView view = ready_worker(number, role);
  KnownWorker worker{.descriptor = view.descriptor, .load = view.load, .load_at = kStart, .heard_at = kStart};
  worker.linked = worker.registered = true;
  return worker;
}

// Pages named by their end, size and first token: enough for an index.
std::vector<uint64_t> names_of(const ClientRequest& client, int64_t page_tokens = 16) {
  const GenerationRequest& request = client.request;
  std::vector<uint64_t> names;
  for (int64_t end = page_tokens; end <= std::ssize(request.prompt); end += page_tokens)
    names.push_back(static_cast<uint64_t>(1'000'000 * page_tokens + 1000 * end + request.prompt[0]));
  return names;
}

class PolicyRoutingTest : public testing::Test {
 protected:
  PolicyRoutingTest() {
    for (const uint64_t id : {1, 2}) workers[worker_id(id)] = known(id, Role::kDecode);
    client.uid = static_cast<RequestUid>(7);
    client.request.prompt.assign(320, 5);
    client.request.max_tokens = 32;
  }
  RouteQuestion question() const { return {.client = client, .workers = workers, .now = now}; }
  Outcome done(int64_t generated = 32) const {
    return {.client = client,
        .decode = worker_id(1),
        .effective_tokens = 320,
        .generated = generated,
        .first_token = Microseconds(84'000),
        .total = Microseconds(400'000),
        .attempts = 1,
        .completed = true};
  }
  PolicyConfig config;
  KnownWorkers workers;
  ClientRequest client;
  Time now = kStart + milliseconds(100);
};

TEST_F(PolicyRoutingTest, KnowsPagesOfEverySizeByTheirOwnNames) {
  PolicyRouting routing(config, names_of);
  workers[worker_id(2)].descriptor.kv.page_tokens = 64;
  KvEvents events{.worker = worker_id(2)};
  for (const uint64_t name : names_of(client, 64))
    events.changes.push_back({.kind = CacheChange::Kind::kStored, .block = name});
  routing.learn(worker_id(2), events);
  EXPECT_EQ(routing.route(question()).decode, worker_id(2));
}

TEST_F(PolicyRoutingTest, PrefersTheWorkerThatSaysItHoldsThePrompt) {
  PolicyRouting routing(config, names_of);
  KvEvents events{.worker = worker_id(2)};
  for (const uint64_t name : names_of(client))
    events.changes.push_back({.kind = CacheChange::Kind::kStored, .block = name});
  routing.learn(worker_id(2), events);
  EXPECT_EQ(routing.admit(question()).kind, Admission::Kind::kAccept);
  const Placement placement = routing.route(question());
  EXPECT_EQ(placement.decode, worker_id(2));
  EXPECT_EQ(placement.effective_tokens, 1);
  EXPECT_NE(placement.why.find("why=kv_match"), std::string::npos) << placement.why;
  routing.forget(worker_id(2));
  EXPECT_EQ(routing.kv_index().num_blocks(), 0);
}

TEST_F(PolicyRoutingTest, WhatWasSentSinceAReportCounts) {
  config.routing.worker_policy = WorkerPolicy::kLeastLoaded;
  PolicyRouting routing(config);
  std::map<WorkerId, int> chosen;
  for (int i = 0; i < 10; ++i) ++chosen[*routing.route(question()).decode];
  EXPECT_EQ(chosen[worker_id(1)], 5);
  workers[worker_id(1)].load_at = now + milliseconds(1);  // reports none of them: they are done
  for (int i = 0; i < 4; ++i) EXPECT_EQ(routing.route(question()).decode, worker_id(1));
}

TEST_F(PolicyRoutingTest, WhatEndedSinceAReportHasLeftItsPlace) {
  config.qos.classes = {{.name = "default", .ttft_slo_ms = 1e6, .tpot_slo_ms = 1e6, .reject_early = true}};
  workers.erase(worker_id(2));
  KnownWorker& only = workers[worker_id(1)];
  only.descriptor.max_sequences = 1;
  PolicyRouting routing(config);
  const auto ask = [&](uint64_t uid) {
    client.uid = static_cast<RequestUid>(uid);
    const bool accepted = routing.admit(question()).kind == Admission::Kind::kAccept;
    if (accepted) routing.route(question());
    return accepted;
  };
  ASSERT_TRUE(ask(1));
  EXPECT_FALSE(ask(2)) << "sent since the report";
  client.uid = static_cast<RequestUid>(1);
  only.load.running = 1;
  only.load.decode_tokens = 1000;
  only.load_at = now += milliseconds(1);
  EXPECT_FALSE(ask(2)) << "reported";
  now += milliseconds(1);
  client.uid = static_cast<RequestUid>(1);
  routing.observe(done(), now);
  ASSERT_TRUE(ask(3)) << "reported, but its end is known";
  EXPECT_FALSE(ask(4));
  only.load_at = now += milliseconds(1);
  EXPECT_FALSE(ask(4)) << "the next report is of the one that has come meanwhile";
}

TEST_F(PolicyRoutingTest, ADecodingIngressKeepsItsRequestsUnlessItLostThem) {
  PolicyRouting routing(config);
  RouteQuestion asked = question();
  asked.self = worker_id(2);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(routing.route(asked).decode, worker_id(2));
  asked.lost = {worker_id(2)};
  EXPECT_EQ(routing.route(asked).decode, worker_id(1));
  workers[worker_id(1)].held_off_until = now + milliseconds(10);
  EXPECT_TRUE(routing.route(asked).decode);  // of two bad ones any
}

TEST_F(PolicyRoutingTest, PlacesAndQuotaComeBackWhenARequestEnds) {
  config.qos.quotas = {{.tenant = "*", .tokens_per_s = 1, .burst_tokens = 352 + 340}};
  PolicyRouting routing(config);
  EXPECT_EQ(routing.admit(question()).kind, Admission::Kind::kAccept);
  EXPECT_EQ(routing.admission().models.at("").shares.total_in_use(), 1);
  ClientRequest second = client;
  second.uid = static_cast<RequestUid>(8);
  const RouteQuestion other{.client = second, .workers = workers, .now = now};
  const Admission refused = routing.admit(other);
  EXPECT_EQ(refused.kind, Admission::Kind::kReject);
  EXPECT_GE(refused.retry_after, std::chrono::seconds(1));
  EXPECT_NE(refused.why.find("why=quota"), std::string::npos) << refused.why;
  routing.observe(done(20), now);  // twelve tokens fewer than it paid for
  EXPECT_EQ(routing.admission().models.at("").shares.total_in_use(), 0);
  EXPECT_EQ(routing.admit(other).kind, Admission::Kind::kAccept);
}

TEST_F(PolicyRoutingTest, LearnsFromWhatItObserves) {
  PolicyRouting routing(config);
  ASSERT_EQ(routing.admit(question()).kind, Admission::Kind::kAccept);
  routing.route(question());
  routing.observe(done(), now);
  // Predicted: 320 tokens at 100 us and a step of 10 ms; it took 84 ms.
  EXPECT_NEAR(routing.admission().models.at("").ttft_ratios.at("default").value_or(0), 2, 1e-9);
  EXPECT_EQ(routing.admission().models.at("").estimates.output_tokens.value_or(0), 32);
  EXPECT_NE(routing.worth_text().find("256 to 1023 tokens: aggregated 84.0 ms"), std::string::npos)
      << routing.worth_text();
}

TEST_F(PolicyRoutingTest, ARequestGoesToAWorkerOfItsModel) {
  workers[worker_id(1)].descriptor.model = "large";
  workers[worker_id(2)].descriptor.model = "small";
  PolicyRouting routing(config, nullptr, {{"big", "large"}, {"little", "small"}});
  for (const auto& [model, id] : {std::pair("large", 1), std::pair("small", 2)}) {
    client.model = model;
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(routing.route(question()).decode, worker_id(static_cast<uint64_t>(id)));
  }
  client.model = "another";
  EXPECT_FALSE(routing.route(question()).decode);
}

TEST_F(PolicyRoutingTest, ABusyModelGivesWayToTheOneItsClassNames) {
  workers[worker_id(1)].descriptor.model = "large";
  workers[worker_id(2)].descriptor.model = "small";
  client.model = "large";
  config.qos.classes = {{.name = "default", .reject_early = true, .degrade_to = "little"}};
  PolicyRouting routing(config, nullptr, {{"big", "large"}, {"little", "small"}});
  workers[worker_id(1)].load.prefill_tokens = 100'000;
  EXPECT_EQ(routing.admit(question()).kind, Admission::Kind::kReject) << "asking again does not help";
  client.may_change_model = true;
  const Admission sent_on = routing.admit(question());
  EXPECT_EQ(sent_on.kind, Admission::Kind::kOtherModel);
  EXPECT_EQ(sent_on.other_model, "little");
  client.model = "small";
  client.degraded_from = "big";
  EXPECT_EQ(routing.admit(question()).kind, Admission::Kind::kDegrade);
  EXPECT_EQ(routing.numbers().other_model.at("default"), 1u);
  EXPECT_EQ(routing.numbers().degraded.at("default"), 1u);
  config.qos.classes[0].degrade_to = "unheard of";
  EXPECT_THROW(routing.configure(config), Error);
  EXPECT_EQ(routing.config().qos.classes[0].degrade_to, "little");
}

TEST_F(PolicyRoutingTest, PromptsThatCannotBeComputedElsewhereOpenTheBreaker) {
  config.qos.prefill_breaker.failures = 2;
  config.routing.offload_policy = OffloadPolicy::kAlways;
  workers[worker_id(3)] = known(3, Role::kPrefill);
  PolicyRouting routing(config);
  Outcome outcome = done();
  outcome.prefill = PrefillPlace::kElsewhere;
  outcome.fell_back = true;
  EXPECT_EQ(routing.route(question()).prefill, PrefillPlace::kElsewhere);
  for (int i = 0; i < 2; ++i) routing.observe(outcome, now);
  const Placement here = routing.route(question());
  EXPECT_EQ(here.prefill, PrefillPlace::kHere);
  EXPECT_EQ(here.prefill_reason, "breaker_open");
  now += milliseconds(config.qos.prefill_breaker.open_ms + 1);
  for (auto& [id, worker] : workers) worker.load_at = worker.heard_at = now;
  int tried = 0;
  for (int i = 0; i < 10; ++i) tried += routing.route(question()).prefill == PrefillPlace::kElsewhere;
  EXPECT_EQ(tried, config.qos.prefill_breaker.probes) << "half open: a few try";
  outcome.fell_back = false;
  for (int i = 0; i < 3; ++i) routing.observe(outcome, now);
  EXPECT_EQ(routing.route(question()).prefill, PrefillPlace::kElsewhere);
}

TEST_F(PolicyRoutingTest, ALackOfWorkersIsNoFailureAndAReadyWorkerClosesTheBreaker) {
  config.qos.decode_breaker.failures = 2;
  PolicyRouting routing(config);
  Outcome outcome = done(0);
  outcome.completed = false;
  outcome.decode = WorkerId{};
  outcome.attempts = 0;
  for (int i = 0; i < 10; ++i) routing.observe(outcome, now);
  EXPECT_EQ(routing.admit(question()).kind, Admission::Kind::kAccept);
  outcome.failed = true;
  outcome.attempts = 4;
  for (int i = 0; i < 2; ++i) routing.observe(outcome, now);
  EXPECT_EQ(routing.admit(question()).refusal, "decode_breaker");
  routing.worker_ready(workers[worker_id(1)].descriptor);
  EXPECT_EQ(routing.admit(question()).kind, Admission::Kind::kAccept);
}

// While decoders are held off or gone, requests wait for one, within their quota.
TEST_F(PolicyRoutingTest, AQuotaHoldsAndTheBooksAreKeptWithoutAWorker) {
  config.qos.quotas = {{.tenant = "*", .tokens_per_s = 1, .burst_tokens = 352}};
  PolicyRouting routing(config);
  for (auto& [id, worker] : workers) worker.linked = false;
  EXPECT_EQ(routing.admit(question()).kind, Admission::Kind::kAccept);
  client.uid = static_cast<RequestUid>(8);
  EXPECT_EQ(routing.admit(question()).refusal, "quota");
  EXPECT_EQ(routing.numbers().accepted.at("default"), 1u);
  EXPECT_EQ(routing.admission().models.at("").shares.total_in_use(), 1);
  client.uid = static_cast<RequestUid>(7);
  Outcome outcome = done(0);
  outcome.completed = false;
  routing.observe(outcome, now);
  EXPECT_EQ(routing.admission().models.at("").shares.total_in_use(), 0);
}

TEST_F(PolicyRoutingTest, SharesHoldWhileTheWorkersAreAway) {
  config.qos.queue_places = 0;
  for (auto& [id, worker] : workers) worker.descriptor.max_sequences = 1;
  PolicyRouting routing(config);
  ASSERT_EQ(routing.admit(question()).kind, Admission::Kind::kAccept);
  for (auto& [id, worker] : workers) worker.linked = false;
  client.uid = static_cast<RequestUid>(8);
  EXPECT_EQ(routing.admit(question()).kind, Admission::Kind::kAccept);
  client.uid = static_cast<RequestUid>(9);
  EXPECT_EQ(routing.admit(question()).refusal, "share");
}

TEST_F(PolicyRoutingTest, NewSettingsTakeEffectWithTheNextRequest) {
  PolicyRouting routing(config);
  config.qos.classes = {{.name = "gold", .reserved = 0.5, .priority = 7}, {.name = "default"}};
  routing.configure(config);
  client.qos_class = "gold";
  EXPECT_EQ(routing.admit(question()).engine_priority, -7 - kOwnPlaceLevels);
  client.qos_class = "unheard of";
  client.uid = static_cast<RequestUid>(9);
  EXPECT_EQ(routing.admit(question()).engine_priority, std::nullopt);
  EXPECT_EQ(routing.numbers().config_reloads, 1u);
}

TEST_F(PolicyRoutingTest, DegradedRequestsAreCappedAndKeepTheirPromptLocal) {
  config.qos.classes[0] = {.name = "default", .ttft_slo_ms = 50, .degrade = true};
  config.qos.degraded_output = 8;
  config.routing.offload_policy = OffloadPolicy::kAlways;
  workers[worker_id(3)] = known(3, Role::kPrefill);
  for (auto& [id, worker] : workers) worker.load.prefill_tokens = 300;
  PolicyRouting routing(config);
  const Admission answer = routing.admit(question());
  EXPECT_EQ(answer.kind, Admission::Kind::kDegrade);
  EXPECT_EQ(answer.max_tokens, 8);
  EXPECT_EQ(routing.route(question()).prefill, PrefillPlace::kHere);
}

// Long prompts and short answers: a decode worker is asked to prefill, once, with the epoch after its own.
TEST_F(PolicyRoutingTest, PlansAFlipForTheTrafficItSees) {
  config.roles.samples = 1;
  config.roles.dwell_ms = 2000;
  workers[worker_id(3)] = known(3, Role::kPrefill);
  client.request.prompt.assign(2000, 5);
  client.request.max_tokens = 1;
  PolicyRouting routing(config);
  std::vector<PlannedFlip> flips;
  for (int tenth = 0; tenth < 60;
       ++tenth, now += milliseconds(100)) {  // twice what one prefill worker can do
    client.uid = static_cast<RequestUid>(100 + tenth);
    routing.admit(question());
    const auto plan = routing.plan(workers, 0, now);
    EXPECT_EQ(plan.has_value(), tenth % 10 == 0);
    if (plan && plan->flip) flips.push_back(*plan->flip);
  }
  ASSERT_EQ(flips.size(), 1u);  // then the cooldown, and one decode worker must stay
  EXPECT_EQ(flips[0].to, Role::kPrefill);
  EXPECT_EQ(flips[0].epoch, 1u);
  EXPECT_EQ(routing.numbers().flips_to_prefill, 1u);
  EXPECT_GT(routing.numbers().imbalance, 1.2);
  EXPECT_EQ(routing.numbers().desired_decode, std::nullopt) << "nobody asked for autoscaling";
}

// The core and the policies together: a refusal reaches the client with its time to come back.
TEST_F(PolicyRoutingTest, WorksBehindTheRouter) {
  config.qos.quotas = {{.tenant = "*", .tokens_per_s = 1, .burst_tokens = 352}};
  PolicyRouting routing(config);
  RouterConfig settings;
  settings.self = worker_id(99);
  RouterCore router(settings, routing);
  std::vector<RouterOutput> outputs;
  const auto feed = [&](RouterInput input) { router.handle(std::move(input), now, outputs); };
  const WorkerView worker = ready_worker(1, Role::kDecode);
  feed(RegistryPut{worker.descriptor});
  feed(PeerUp{worker_id(1)});
  feed(PeerMessage{worker_id(1), Heartbeat{.role = Role::kDecode, .load = worker.load}});
  feed(client);
  client.uid = static_cast<RequestUid>(8);
  feed(client);
  int sent = 0, refused = 0;
  for (const RouterOutput& output : outputs) {
    if (const auto* message = std::get_if<SendMessage>(&output))
      sent += std::holds_alternative<Generate>(message->message) ? 1 : 0;
    if (const auto* emit = std::get_if<Emit>(&output))
      refused += emit->summary && emit->summary->retry_after ? 1 : 0;
  }
  EXPECT_EQ(sent, 1);
  EXPECT_EQ(refused, 1);
}

}  // namespace
}  // namespace cheetah::cluster
