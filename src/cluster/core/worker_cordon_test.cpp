// SPDX-License-Identifier: MIT
// An operator's order that a worker shall take nothing new, from one state of the worker to the next.
#include "cluster/core/router_probe.h"
#include "cluster/core/worker_probe.h"

namespace cheetah::cluster {
namespace {

WorkerState state_of(const Worker& worker) { return worker.core.descriptor().state; }

std::optional<Cordon> said(const Worker& worker) {
  const auto news = worker.sent<CordonNews>();
  return news.empty() ? std::nullopt : std::optional(news.back().second.cordon);
}

TEST(Cordons, ACordonedWorkerFinishesWhatItHasHoweverLongItTakes) {
  Worker worker;
  worker.reach(RequestState::kDecoding);
  worker.tell(CordonOrdered{.cordoned = true});
  EXPECT_EQ(state_of(worker), WorkerState::kDraining);
  EXPECT_EQ(said(worker), Cordon::kCordoned);
  worker.hear(kRouterR, Generate{.key = {RequestUid{99}, Attempt{1}}, .request = request_of(5)});
  EXPECT_EQ(worker.sent<GaveUp>().at(0).second.reason, GiveUpReason::kDraining);
  worker.pass(seconds(300), seconds(1));
  EXPECT_TRUE(worker.sent<GaveUp>().empty());
  worker.engine(event_of({12}, true));
  EXPECT_EQ(worker.sent<Tokens>().size(), 1u);
  EXPECT_TRUE(worker.wanted<Drained>().empty()) << "it stays";
  worker.tell(PeerUp{WorkerId{0x55}});
  EXPECT_EQ(said(worker), Cordon::kCordoned) << "who comes later is told";
  worker.tell(CordonOrdered{});
  EXPECT_EQ(state_of(worker), WorkerState::kReady);
  EXPECT_EQ(said(worker), Cordon::kNone);
}

TEST(Cordons, ADrainedWorkerHandsOverAndSaysSo) {
  Worker worker;
  worker.reach(RequestState::kDecoding);
  worker.tell(CordonOrdered{.cordoned = true, .limit = milliseconds(500)});
  EXPECT_EQ(said(worker), Cordon::kDraining);
  worker.pass(milliseconds(600));
  EXPECT_EQ(worker.counted(Counter::kHandedOver), 1);
  worker.engine(event_of({}, true));
  EXPECT_EQ(said(worker), Cordon::kDrained);
  EXPECT_TRUE(worker.wanted<Drained>().empty()) << "its process stays";
  worker.pass(seconds(2));
  EXPECT_EQ(said(worker), std::nullopt) << "said once";
  worker.tell(CordonOrdered{});
  EXPECT_EQ(state_of(worker), WorkerState::kReady);
  worker.generate(2);
  EXPECT_TRUE(worker.sent<GaveUp>().empty());
}

TEST(Cordons, ADrainThatBecomesACordonHandsNothingOver) {
  Worker worker;
  worker.reach(RequestState::kDecoding);
  worker.tell(CordonOrdered{.cordoned = true, .limit = milliseconds(500)});
  worker.tell(CordonOrdered{.cordoned = true});
  worker.pass(seconds(5));
  EXPECT_EQ(worker.counted(Counter::kHandedOver), 0);
}

TEST(Cordons, HoldForAWorkerThatStartsOrTakesANewRole) {
  Worker flipping;
  flipping.hear(kRouterR, FlipRole{Role::kPrefill, 2});
  flipping.tell(CordonOrdered{.cordoned = true});
  flipping.tell(WarmedUp{});
  EXPECT_EQ(flipping.core.descriptor().role, Role::kPrefill);
  EXPECT_EQ(state_of(flipping), WorkerState::kDraining);
  EXPECT_EQ(flipping.core.jobs_wanted(), 0);
  flipping.tell(CordonOrdered{});
  EXPECT_EQ(state_of(flipping), WorkerState::kReady);
  EXPECT_GT(flipping.core.jobs_wanted(), 0);
}

TEST(Cordons, ACordonDoesNotKeepAWorkerFromLeaving) {
  Worker worker;
  worker.tell(CordonOrdered{.cordoned = true});
  worker.tell(DrainRequested{seconds(1)});
  EXPECT_EQ(worker.wanted<Drained>().size(), 1u);
  worker.tell(CordonOrdered{});
  EXPECT_EQ(state_of(worker), WorkerState::kDraining) << "it leaves all the same";
}

TEST(Cordons, ARouterKnowsThemUntilTheLinkIsNew) {
  LeastLoaded policy;
  Router router(policy);
  router.join(kDecodeA);
  router.hear(kDecodeA, CordonNews{Cordon::kCordoned});
  EXPECT_EQ(router.core.workers().at(kDecodeA).cordon, Cordon::kCordoned);
  router.hear(kDecodeB, CordonNews{Cordon::kCordoned});
  EXPECT_EQ(router.core.workers().count(kDecodeB), 0u) << "nobody it knows";
  router.tell(PeerDown{kDecodeA});
  router.join(kDecodeA);
  EXPECT_EQ(router.core.workers().at(kDecodeA).cordon, Cordon::kNone);
}

}  // namespace
}  // namespace cheetah::cluster
