// SPDX-License-Identifier: MIT
#include "cluster/policy/route.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>

#include "cluster/policy/policy_fixture.h"
#include "cluster/policy/worker_choice.h"

namespace cheetah::cluster {
namespace {

RoutingConfig with(WorkerPolicy policy) {
  RoutingConfig config;
  config.worker_policy = policy;
  return config;
}

TEST(Scores, LatencyCostP3WithSharesTakesTheWorkerThatHasThePrefix) {
  const LatencyCostInputs a{
      .kv_occupancy = 0.8, .active = 4, .cache_match = 1, .bandwidth = 0.6, .recent_prefix = true};
  const LatencyCostInputs b{.kv_occupancy = 0.2, .active = 1, .cache_match = 0, .bandwidth = 0.2};
  EXPECT_NEAR(latency_cost(a, {}), -4.3, 1e-12);
  EXPECT_NEAR(latency_cost(b, {}), 1.7, 1e-12);
}

TEST(Scores, LatencyCostP3WithPercentsWouldTakeTheOtherOne) {
  const LatencyCostInputs a{
      .kv_occupancy = 80, .active = 4, .cache_match = 1, .bandwidth = 60, .recent_prefix = true};
  const LatencyCostInputs b{.kv_occupancy = 20, .active = 1, .cache_match = 0, .bandwidth = 20};
  EXPECT_NEAR(latency_cost(a, {}), 263, 1e-9);
  EXPECT_NEAR(latency_cost(b, {}), 71, 1e-9);
}

TEST(Scores, LatencyCostP2CountsSevenTenthsAPercent) {
  EXPECT_NEAR(load_cost(0.5, 10, {}), 0.7 * 50 + 0.3 * 10, 1e-12);
}

TEST(Scores, SplitP5IgnoresSmallMatches) {
  EXPECT_NEAR(cache_score({.matched_fraction = 0.74}, {}), 0, 1e-12);
  EXPECT_NEAR(cache_score({.matched_fraction = 0.8, .waiting_share = 0.5, .running_share = 1}, {}),
      8 - 0.75 - 0.5, 1e-12);
}

TEST(Route, RoundRobinTakesEachInTurn) {
  const ClusterView view = small_cluster(0, 3);
  RouteMemory memory;
  std::vector<uint64_t> chosen;
  for (int i = 0; i < 6; ++i)
    chosen.push_back(
        static_cast<uint64_t>(*route(view, prompt_of(10), with(WorkerPolicy::kRoundRobin), memory).decode));
  EXPECT_EQ(chosen, (std::vector<uint64_t>{100, 101, 102, 100, 101, 102}));
}

TEST(Route, LeastLoadedCountsWhatWasSentSinceTheReport) {
  ClusterView view = small_cluster(0, 2);
  view.workers[0].load.running = 2;
  RouteMemory memory;
  EXPECT_EQ(route(view, prompt_of(10), with(WorkerPolicy::kLeastLoaded), memory).decode, worker_id(101));
  view.workers[1].sent_choices = 3;
  EXPECT_EQ(route(view, prompt_of(10), with(WorkerPolicy::kLeastLoaded), memory).decode, worker_id(100));
}

TEST(Route, AnOldReportCountsAsAFullWorkerAndAVeryOldOneAsNone) {
  ClusterView view = small_cluster(0, 2);
  view.workers[0].load.running = 8;
  view.workers[1].load_age = std::chrono::seconds(3);
  RouteMemory memory;
  EXPECT_EQ(route(view, prompt_of(10), with(WorkerPolicy::kLeastLoaded), memory).decode, worker_id(100));
  view.workers[0].load_age = view.workers[1].load_age = std::chrono::seconds(11);
  const RouteDecision none = route(view, prompt_of(10), with(WorkerPolicy::kLeastLoaded), memory);
  EXPECT_EQ(none.decode, std::nullopt);
  EXPECT_EQ(none.worker_reason, WorkerReason::kNoWorker);
  EXPECT_EQ(none.scores[0].ineligible, Ineligible::kSilent);
}

TEST(Route, APrefixStaysWithItsWorkerUntilThatOneIsOverTheBound) {
  ClusterView view = small_cluster(0, 8);
  RouteMemory memory;
  RouteRequest request = prompt_of(100);
  request.prefix_hash = 77;
  const RouteDecision first = route(view, request, with(WorkerPolicy::kPrefixAware), memory);
  EXPECT_EQ(first.worker_reason, WorkerReason::kPrefixHash);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(route(view, request, with(WorkerPolicy::kPrefixAware), memory).decode, first.decode);
  for (WorkerView& w : view.workers)
    if (w.descriptor.id == *first.decode) w.load.running = 12;
  const RouteDecision spilled = route(view, request, with(WorkerPolicy::kPrefixAware), memory);
  EXPECT_NE(spilled.decode, first.decode);
  EXPECT_EQ(spilled.worker_reason, WorkerReason::kPrefixSpilled);
}

TEST(Route, TheLossOfAWorkerMovesOnlyItsOwnPrefixes) {
  const ClusterView all = small_cluster(0, 8);
  ClusterView fewer = all;
  fewer.workers.erase(fewer.workers.begin() + 3);
  RouteMemory memory;
  std::map<WorkerId, int> spread;
  for (uint64_t prefix = 1; prefix <= 400; ++prefix) {
    RouteRequest request = prompt_of(100);
    request.prefix_hash = prefix * 0x9e3779b97f4a7c15u;
    const auto before = route(all, request, with(WorkerPolicy::kPrefixAware), memory).decode;
    const auto after = route(fewer, request, with(WorkerPolicy::kPrefixAware), memory).decode;
    ++spread[*before];
    EXPECT_TRUE(before == after || *before == worker_id(103));
  }
  for (const auto& [worker, count] : spread) EXPECT_GT(count, 20) << static_cast<uint64_t>(worker);
}

TEST(Route, KvAwareWeighsTheCacheAgainstTheWait) {
  ClusterView view = small_cluster(0, 2);
  RouteMemory memory;
  RouteRequest request = prompt_of(1000);
  request.cached = {{worker_id(100), 900}};
  const RouteDecision matched = route(view, request, with(WorkerPolicy::kKvAware), memory);
  EXPECT_EQ(matched.decode, worker_id(100));
  EXPECT_EQ(matched.worker_reason, WorkerReason::kKvMatch);
  EXPECT_EQ(matched.effective_tokens, 100);
  view.workers[0].load.prefill_tokens = 2000;  // 200 ms: more than the 90 ms that the cache saves
  EXPECT_EQ(route(view, request, with(WorkerPolicy::kKvAware), memory).decode, worker_id(101));
}

TEST(Route, AHotWorkerLosesItsCacheBonus) {
  ClusterView view = small_cluster(0, 3);
  view.workers[0].load.running = 12;
  RouteRequest request = prompt_of(1000);
  request.cached = {{worker_id(100), 1000}};
  for (const WorkerPolicy policy :
      {WorkerPolicy::kKvAware, WorkerPolicy::kLatencyCost, WorkerPolicy::kCacheScore}) {
    RouteMemory memory;
    RoutingConfig config = with(policy);
    config.latency_cost.active = 0.1;
    const RouteDecision spread = route(view, request, config, memory);
    EXPECT_NE(spread.decode, worker_id(100)) << name_of(policy);
    EXPECT_TRUE(spread.scores[0].hot);
    config.hot_spot_prevention = false;
    EXPECT_EQ(route(view, request, config, memory).decode, worker_id(100)) << name_of(policy);
  }
}

TEST(Route, UrgentRequestsRaceOnTwoWorkersWhereAskedTo) {
  const ClusterView view = small_cluster(0, 2);
  RoutingConfig config;
  config.race = true;
  RouteMemory memory;
  RouteRequest request = prompt_of(10);
  EXPECT_EQ(route(view, request, config, memory).race, std::nullopt);
  request.priority = config.urgent_priority;
  const RouteDecision raced = route(view, request, config, memory);
  ASSERT_TRUE(raced.race);
  EXPECT_NE(raced.race, raced.decode);
}

TEST(Route, AWorkerThatLostTheRequestGetsItAgainOnlyWhenThereIsNoOther) {
  ClusterView view = small_cluster(0, 2);
  RouteMemory memory;
  RouteRequest request = prompt_of(10);
  request.excluded = {worker_id(100)};
  for (int i = 0; i < 10; ++i) EXPECT_EQ(route(view, request, {}, memory).decode, worker_id(101));
  view.workers[1].reachable = false;
  EXPECT_EQ(route(view, request, {}, memory).decode, worker_id(100));
}

TEST(Route, MemoryOfPrefixesIsBoundedAndDiesWithTheWorker) {
  RouteMemory memory;
  for (uint64_t i = 1; i <= 1000; ++i) memory.note(i, worker_id(1), 100);
  EXPECT_LE(memory.num_prefixes(), 100);
  EXPECT_TRUE(memory.recent(1000, worker_id(1)));
  EXPECT_FALSE(memory.recent(1, worker_id(1)));
  memory.forget(worker_id(1));
  EXPECT_EQ(memory.num_prefixes(), 0);
}

rc::Gen<WorkerView> any_worker(uint64_t number) {
  return rc::gen::exec([number] {
    WorkerView w = ready_worker(number, static_cast<Role>(*rc::gen::inRange(0, 4)));
    w.descriptor.state = static_cast<WorkerState>(*rc::gen::inRange(0, 3));
    w.reachable = *rc::gen::inRange(0, 4) != 0;
    w.descriptor.model = *rc::gen::inRange(0, 5) == 0 ? "other" : "m";
    w.descriptor.max_context = *rc::gen::element<int64_t>(128, 4096);
    w.load_age = std::chrono::milliseconds(*rc::gen::inRange(0, 15'000));
    w.load.running = *rc::gen::inRange(0, 40);
    w.load.waiting = *rc::gen::inRange(0, 10);
    w.load.prefill_tokens = *rc::gen::inRange(0, 10'000);
    w.load.decode_tokens = *rc::gen::inRange(0, 10'000);
    w.load.pages_free = *rc::gen::inRange(0, 1000);
    w.load.prefill_us_per_token = *rc::gen::inRange(0, 3) * 50;
    w.load.decode_step_us = *rc::gen::inRange(0, 3) * 5000;
    return w;
  });
}

// Whatever the cluster looks like, only workers that can serve a request get one, and one is found if there
// is.
TEST(Route, NeverChoosesAWorkerThatCannotServe) {
  EXPECT_TRUE(rc::check([] {
    ClusterView view;
    const auto count = static_cast<uint64_t>(*rc::gen::inRange(0, 8));
    for (uint64_t i = 0; i < count; ++i) view.workers.push_back(*any_worker(i + 1));
    view.prefill_queue = {.up = *rc::gen::arbitrary<bool>(),
        .depth = *rc::gen::inRange(0, 20),
        .tokens = *rc::gen::inRange(0, 20'000)};
    RoutingConfig config;
    config.worker_policy = static_cast<WorkerPolicy>(*rc::gen::inRange(0, 7));
    config.offload_policy = static_cast<OffloadPolicy>(*rc::gen::inRange(0, 5));
    config.race = *rc::gen::arbitrary<bool>();
    RouteRequest request = prompt_of(*rc::gen::inRange(1, 2000));
    request.prefix_hash = *rc::gen::arbitrary<uint64_t>();
    request.priority = *rc::gen::element(0, 100);
    request.cached = {{worker_id(1), *rc::gen::inRange(0, 3000)}};
    RouteMemory memory;
    const RouteDecision decision = route(view, request, config, memory);
    RC_ASSERT(decision.scores.size() == view.workers.size());
    bool possible = false;
    for (const WorkerView& w : view.workers) {
      const bool can = w.descriptor.state == WorkerState::kReady && w.reachable &&
                       w.load_age <= std::chrono::seconds(10) && w.descriptor.model == "m" &&
                       w.descriptor.max_context > request.prompt_tokens;
      const bool decodes = can && (w.descriptor.role == Role::kDecode || w.descriptor.role == Role::kBoth);
      possible = possible || decodes;
      if (decision.decode == w.descriptor.id) RC_ASSERT(decodes);
      if (decision.race == w.descriptor.id) RC_ASSERT(decodes);
      if (decision.prefill_worker == w.descriptor.id)
        RC_ASSERT(can && (w.descriptor.role == Role::kPrefill || w.descriptor.role == Role::kBoth));
    }
    RC_ASSERT(decision.decode.has_value() == possible);
    RC_ASSERT(!decision.race || decision.race != decision.decode);
    RC_ASSERT(!decision.prefill_worker || decision.prefill_worker != decision.decode);
    RC_ASSERT((decision.prefill == PrefillMode::kRemote) == decision.prefill_worker.has_value());
    RC_ASSERT(decision.prefill == PrefillMode::kLocal || view.prefill_queue.up);
  }));
}

TEST(PrefixFetch, APrefixIsFetchedWhereThatIsCheaperThanComputingIt) {
  ClusterView view = small_cluster(0, 2);
  RouteRequest request = prompt_of(2000);
  request.cached = {{worker_id(101), 1600}};
  request.excluded = {worker_id(101)};  // it is full, say: the other one decodes
  RoutingConfig config;
  RouteMemory memory;
  const RouteDecision decision = route(view, request, config, memory);
  ASSERT_EQ(decision.decode, worker_id(100));
  EXPECT_EQ(decision.fetch_from, worker_id(101));
  EXPECT_EQ(decision.fetch_tokens, 1600);
  EXPECT_EQ(decision.prefill, PrefillMode::kLocal);
  EXPECT_EQ(decision.prefill_reason, PrefillReason::kPrefixFetched);
  // 160 ms to compute 1,600 tokens beside 2 ms, a step and 6.6 MB at 1 GB/s.
  EXPECT_NEAR(decision.local_ms - decision.fetch_ms, 160 - 2 - 10 - 6.5536, 0.1);

  const auto fetched = [&] {
    RouteMemory fresh;
    return route(view, request, config, fresh).fetch_from.has_value();
  };
  view.workers[1].load.transfer_bytes_per_s = 30e6;  // as it has measured: 218 ms
  EXPECT_FALSE(fetched());
  view.workers[1].load.transfer_bytes_per_s = 0;
  view.workers[0].load.prefill_us_per_token = 5;  // 8 ms to compute them
  EXPECT_FALSE(fetched());
  view.workers[0].load.prefill_us_per_token = 100;
  EXPECT_TRUE(fetched());
  view.workers[1].descriptor.kv.model = "another";
  EXPECT_FALSE(fetched()) << "its pages are of no use";
  view.workers[1].descriptor.kv.model = "m";
  view.workers[1].reachable = false;
  EXPECT_FALSE(fetched());
  view.workers[1].reachable = true;
  request.cached.push_back({worker_id(100), 1500});
  EXPECT_FALSE(fetched()) << "100 tokens are not worth it";
  request.cached.pop_back();
  config.fetch.enabled = false;
  EXPECT_FALSE(fetched());
}

TEST(PrefixFetch, APrefillWorkerThatIsFasterIsTaken) {
  ClusterView view = small_cluster(1, 2);
  RouteRequest request = prompt_of(8000);
  request.cached = {{worker_id(101), 512}};
  request.excluded = {worker_id(101)};
  view.workers[2].load.prefill_us_per_token = 10;
  RoutingConfig config;
  config.worth.enabled = false;
  RouteMemory memory;
  const RouteDecision decision = route(view, request, config, memory);
  EXPECT_EQ(decision.prefill, PrefillMode::kRemote);
  EXPECT_FALSE(decision.fetch_from);
}

}  // namespace
}  // namespace cheetah::cluster
