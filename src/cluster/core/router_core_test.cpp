// SPDX-License-Identifier: MIT
// Single transitions of a router; the simulation has the long stories.
#include "cluster/core/router_core.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "cluster/core/router_probe.h"

namespace cheetah::cluster {
namespace {

class RouterTransitions : public testing::Test {
 protected:
  LeastLoaded policy;
  Router router{policy};
};

TEST_F(RouterTransitions, TokensOutOfOrderWaitForTheirTurnAndDoubledOnesAreDropped) {
  router.join(kDecodeA);
  router.ask();
  router.token(kDecodeA, 1, 1, 1, event_of({12}));
  EXPECT_EQ(router.tokens(), std::vector<int32_t>{}) << "the first is still missing";
  router.token(kDecodeA, 1, 0, 0, event_of({11}));
  EXPECT_EQ(router.tokens(), (std::vector<int32_t>{11, 12}));
  router.token(kDecodeA, 1, 0, 0, event_of({11}));
  EXPECT_EQ(router.tokens(), std::vector<int32_t>{});
  EXPECT_EQ(router.counted(Counter::kDuplicatesDropped), 1);
  router.token(kDecodeA, 1, 2, 2, event_of({13}, true));
  EXPECT_EQ(router.ends(), 1);
  router.token(kDecodeA, 1, 2, 2, event_of({13}, true));
  EXPECT_EQ(router.ends(), 0) << "a request ends once";
}

// Every way to lose a worker in the middle of a stream.
TEST_F(RouterTransitions, HoweverAWorkerIsLostTheRequestGoesOnElsewhereWithWhatTheClientHas) {
  const std::pair<const char*, std::function<void(Router&)>> kWays[] = {
      {"its link breaks", [](Router& r) { r.tell(PeerDown{kDecodeA}); }},
      {"it gives up",
          [](Router& r) {
            r.hear(kDecodeA, GaveUp{key_of(1), GiveUpReason::kFailed, ""});
          }},
      {"it never heard of it",
          [](Router& r) {
            r.hear(kDecodeA, GaveUp{key_of(1), GiveUpReason::kUnknown, ""});
          }},
      {"it drains",
          [](Router& r) {
            r.hear(kDecodeA, GaveUp{key_of(1), GiveUpReason::kDraining, ""});
          }},
      {"its engine fails", [](Router& r) { r.token(kDecodeA, 1, 2, 2, error_event(ErrorKind::kInternal)); }},
      {"it is silent", [](Router& r) { r.pass_with({kDecodeB}, seconds(4)); }},
      {"it does not answer",
          [](Router& r) {
            r.pass_with({kDecodeA, kDecodeB}, seconds(5));
          }},
      {"it is out of step", [](Router& r) { r.token(kDecodeA, 1, 2, 9, event_of({5})); }},
      {"it says that it sent more",
          [](Router& r) {
            r.hear(kDecodeA, ProbeAnswer{key_of(1), 3});
            r.hear(kDecodeA, ProbeAnswer{key_of(1), 3});
          }},
      {"a message is missing", [](Router& r) {
         r.token(kDecodeA, 1, 3, 3, event_of({14}));
         r.pass_with({kDecodeA, kDecodeB}, milliseconds(1200));
       }}};
  for (const auto& [way, lose] : kWays) {
    Router one(policy);
    one.join(kDecodeA);
    one.ask(2);
    one.join(kDecodeB);
    one.token(kDecodeA, 1, 0, 0, event_of({11, 12}));
    one.token(kDecodeA, 1, 1, 0, event_of({21}, false, 1));
    lose(one);
    const auto again = one.sent<Generate>();
    ASSERT_EQ(again.size(), 1u) << way;
    EXPECT_EQ(again[0].first, kDecodeB) << way;
    EXPECT_EQ(again[0].second.key, key_of(2)) << way;
    ASSERT_EQ(again[0].second.resume.size(), 2u) << way;
    EXPECT_EQ(again[0].second.resume[0].tokens, (std::vector<int32_t>{11, 12})) << way;
    EXPECT_EQ(again[0].second.resume[1].tokens, (std::vector<int32_t>{21})) << way;
    one.token(kDecodeA, 1, 2, 2, event_of({99}));
    EXPECT_EQ(one.tokens(), std::vector<int32_t>{}) << way << ": an old attempt is not heard any more";
    one.token(kDecodeB, 2, 0, 2, event_of({13}));
    EXPECT_EQ(one.tokens(), std::vector<int32_t>{13}) << way;
  }
}

TEST_F(RouterTransitions, AStaleAttemptIsToldToStop) {
  router.join(kDecodeA);
  router.ask();
  router.join(kDecodeB);
  router.hear(kDecodeA, GaveUp{key_of(1), GiveUpReason::kFailed, ""});
  router.token(kDecodeA, 1, 0, 0, event_of({11}));
  EXPECT_EQ(router.counted(Counter::kStaleDropped), 1);
  ASSERT_EQ(router.sent<Cancel>().size(), 1u);
  EXPECT_EQ(router.sent<Cancel>()[0].second.key, key_of(1));
  router.hear(kDecodeA, ProbeAnswer{key_of(1), 4});
  EXPECT_EQ(router.sent<Cancel>().size(), 1u) << "also where it only says that it still has it";
}

TEST_F(RouterTransitions, AnotherWorkerCannotSpeakForTheOneThatHasTheRequest) {
  router.join(kDecodeA);
  router.ask();
  router.join(kDecodeB);
  router.token(kDecodeB, 1, 0, 0, event_of({11}));
  EXPECT_EQ(router.tokens(), std::vector<int32_t>{});
  router.hear(kDecodeB, GaveUp{key_of(1), GiveUpReason::kFailed, ""});
  EXPECT_TRUE(router.sent<Generate>().empty());
}

TEST_F(RouterTransitions, ACancelEndsTheRequestOnceInEveryState) {
  const std::pair<const char*, std::function<void(Router&)>> kStates[] = {
      {"without a worker", [](Router& r) { r.ask(); }},
      {"sent",
          [](Router& r) {
            r.join(kDecodeA);
            r.ask();
          }},
      {"streaming",
          [](Router& r) {
            r.join(kDecodeA);
            r.ask();
            r.token(kDecodeA, 1, 0, 0, event_of({11}));
          }},
      {"one of two choices has ended",
          [](Router& r) {
            r.join(kDecodeA);
            r.ask(2);
            GenerationEvent end = event_of({11});
            end.finish = FinishReason::kStop;
            r.token(kDecodeA, 1, 0, 0, std::move(end));
          }},
      {"racing",
          [](Router& r) {
            r.join(kDecodeA);
            r.join(kDecodeB);
            r.ask(1, true);
          }},
      {"lost and waiting again", [](Router& r) {
         r.join(kDecodeA);
         r.ask();
         r.tell(PeerDown{kDecodeA});
       }}};
  for (const auto& [state, reach] : kStates) {
    Router one(policy);
    reach(one);
    std::vector<WorkerId> had;
    one.tell(ClientCancel{kUid});
    EXPECT_EQ(one.ends(), 1) << state;
    for (const Emit& emit : one.wanted<Emit>())
      EXPECT_EQ(emit.event.finish, FinishReason::kCancelled) << state;
    EXPECT_EQ(one.core.num_requests(), 0) << state;
    const size_t legs = std::string(state) == "racing" ? 2 : one.core.workers().count(kDecodeA);
    EXPECT_EQ(one.sent<Cancel>().size(), legs) << state;
    one.tell(ClientCancel{kUid});
    EXPECT_TRUE(one.out.empty()) << state << ": a second one changes nothing";
  }
}

TEST_F(RouterTransitions, AfterTooManyLostWorkersTheClientIsTold) {
  router.join(kDecodeA);
  router.join(kDecodeB);
  router.ask();
  for (uint32_t attempt = 1; attempt <= 4; ++attempt) {
    ASSERT_EQ(router.sent<Generate>().size(), 1u) << attempt;
    const WorkerId at = router.sent<Generate>()[0].first;
    router.hear(at, GaveUp{key_of(attempt), GiveUpReason::kFailed, ""});
  }
  EXPECT_TRUE(router.sent<Generate>().empty()) << "three migrations, no more";
  ASSERT_EQ(router.ends(), 1);
  EXPECT_EQ(router.wanted<Emit>()[0].event.error_kind, ErrorKind::kQueueFull);
  EXPECT_EQ(router.counted(Counter::kUnavailable), 1);
  EXPECT_EQ(router.counted(Counter::kMigrationLimit), 1);
}

TEST_F(RouterTransitions, ARequestThatGetsOnIsNotToBlameForItsWorkers) {
  router.join(kDecodeA);
  router.join(kDecodeB);
  router.ask();
  uint32_t attempt = 1;
  for (; attempt <= 16; ++attempt) {
    ASSERT_EQ(router.sent<Generate>().size(), 1u) << attempt;
    const WorkerId at = router.sent<Generate>()[0].first;
    router.token(at, attempt, 0, attempt - 1, event_of({static_cast<int32_t>(attempt)}));
    router.hear(at, GaveUp{key_of(attempt), GiveUpReason::kFailed, ""});
  }
  ASSERT_EQ(router.sent<Generate>().size(), 1u) << "somewhere it ends, but not here";
  const WorkerId at = router.sent<Generate>()[0].first;
  router.token(at, attempt, 0, attempt - 1, event_of({99}));
  router.hear(at, GaveUp{key_of(attempt), GiveUpReason::kFailed, ""});
  EXPECT_EQ(router.ends(), 1);
  EXPECT_EQ(router.counted(Counter::kMigrationLimit), 1);
}

TEST_F(RouterTransitions, AHalfAnsweredRequestWaitsLongerForAWorker) {
  router.join(kDecodeA);
  router.ask();
  router.token(kDecodeA, 1, 0, 0, event_of({11}));
  router.tell(PeerDown{kDecodeA});
  router.pass(milliseconds(9000));
  EXPECT_EQ(router.ends(), 0);
  router.join(kDecodeB);
  ASSERT_EQ(router.sent<Generate>().size(), 1u);
  router.tell(PeerDown{kDecodeB});
  router.pass(milliseconds(10100));
  EXPECT_EQ(router.ends(), 1);
}

TEST_F(RouterTransitions, AWorkerThatDrainsIsNoFailureOfTheRequest) {
  router.join(kDecodeA);
  router.join(kDecodeB);
  router.ask();
  for (uint32_t attempt = 1; attempt <= 10; ++attempt) {
    ASSERT_EQ(router.sent<Generate>().size(), 1u) << attempt;
    const WorkerId at = router.sent<Generate>()[0].first;
    const WorkerId other = at == kDecodeA ? kDecodeB : kDecodeA;
    router.beat(other);  // it is back
    router.hear(at, GaveUp{key_of(attempt), GiveUpReason::kDraining, ""});
  }
  EXPECT_EQ(router.sent<Generate>().size(), 1u);
  EXPECT_EQ(router.ends(), 0);
}

TEST_F(RouterTransitions, OfARaceTheFirstTokenWinsAndTheOtherIsCancelled) {
  for (const WorkerId winner : {kDecodeA, kDecodeB}) {
    Router one(policy);
    one.join(kDecodeA);
    one.join(kDecodeB);
    one.ask(1, true);
    const auto legs = one.sent<Generate>();
    ASSERT_EQ(legs.size(), 2u);
    const size_t won = legs[0].first == winner ? 0 : 1;
    const auto attempt = [&](size_t leg) { return static_cast<uint32_t>(legs[leg].second.key.attempt); };
    one.token(winner, attempt(won), 0, 0, event_of({11}));
    EXPECT_EQ(one.tokens(), std::vector<int32_t>{11});
    ASSERT_EQ(one.sent<Cancel>().size(), 1u);
    EXPECT_EQ(one.sent<Cancel>()[0].second.key, legs[1 - won].second.key);
    EXPECT_EQ(one.counted(Counter::kRacesWonBySecond), won == 1 ? 1 : 0);
    const WorkerId loser = legs[1 - won].first;
    one.token(loser, attempt(1 - won), 0, 0, event_of({11}));
    EXPECT_EQ(one.tokens(), std::vector<int32_t>{}) << "the loser is not heard";
    one.tell(PeerDown{loser});
    EXPECT_TRUE(one.sent<Generate>().empty()) << "and nobody misses it";
  }
}

TEST_F(RouterTransitions, ARaceThatLosesOneWorkerGoesOnWithTheOther) {
  router.join(kDecodeA);
  router.join(kDecodeB);
  router.ask(1, true);
  router.tell(PeerDown{kDecodeA});
  EXPECT_EQ(router.counted(Counter::kMigrations), 0);
  EXPECT_TRUE(router.sent<Generate>().empty());
  router.token(kDecodeB, 2, 0, 0, event_of({11}, true));
  EXPECT_EQ(router.ends(), 1);
}

TEST_F(RouterTransitions, ADeadlineEndsARequestWhereverItIs) {
  router.ask(1, false, router.now + milliseconds(500));
  router.pass(milliseconds(600));
  ASSERT_EQ(router.ends(), 1) << "waiting for a worker";
  EXPECT_EQ(router.wanted<Emit>().back().event.finish, FinishReason::kDeadline);
  Router one(policy);
  one.join(kDecodeA);
  one.ask(1, false, one.now + milliseconds(500));
  one.pass_with({kDecodeA}, milliseconds(800));
  EXPECT_EQ(one.ends(), 0) << "the worker has a little longer to say so itself";
  one.pass_with({kDecodeA}, milliseconds(400));
  ASSERT_EQ(one.ends(), 1);
  EXPECT_EQ(one.wanted<Emit>().back().event.finish, FinishReason::kDeadline);
}

TEST_F(RouterTransitions, ARequestWaitsALittleForAWorkerThatComes) {
  router.ask();
  EXPECT_EQ(router.ends(), 0);
  router.pass(milliseconds(500));
  router.join(kDecodeA);
  ASSERT_EQ(router.sent<Generate>().size(), 1u);
  Router one(policy);
  one.ask();
  one.pass(milliseconds(1100));
  ASSERT_EQ(one.ends(), 1);
  EXPECT_EQ(one.wanted<Emit>().back().event.error_kind, ErrorKind::kQueueFull);
}

TEST_F(RouterTransitions, AWorkerWhoseLeaseEndedFinishesWhatItHasAndGetsNothingNew) {
  router.tell(RegistryPut{ready_worker(kDecodeA, Role::kDecode)});
  router.join(kDecodeA);
  router.ask();
  router.tell(RegistryGone{kDecodeA});
  router.token(kDecodeA, 1, 0, 0, event_of({11}));
  EXPECT_EQ(router.tokens(), std::vector<int32_t>{11});
  router.tell(ClientRequest{.uid = RequestUid{2}, .request = request_of(4)});
  EXPECT_TRUE(router.sent<Generate>().empty());
  router.tell(RegistryPut{ready_worker(kDecodeA, Role::kDecode)});
  EXPECT_EQ(router.sent<Generate>().size(), 1u) << "it is back";
}

TEST_F(RouterTransitions, WhatAWorkerSaidBeforeAFlipIsNotBelievedAfterIt) {
  router.tell(PeerUp{kDecodeA});
  router.hear(kDecodeA, Hello{ready_worker(kDecodeA, Role::kPrefill, 2)});
  router.hear(kDecodeA, Heartbeat{.role = Role::kDecode, .epoch = 1});
  router.tell(RegistryPut{ready_worker(kDecodeA, Role::kDecode, 1)});
  router.ask();
  EXPECT_TRUE(router.sent<Generate>().empty()) << "it prefills since epoch 2";
  router.hear(kDecodeA, Heartbeat{.role = Role::kDecode, .epoch = 3});
  EXPECT_EQ(router.sent<Generate>().size(), 1u);
  router.hear(kDecodeB, Hello{ready_worker(kDecodeA, Role::kPrefill, 9)});
  EXPECT_EQ(router.core.workers().at(kDecodeA).descriptor.epoch, 3u) << "nobody speaks for another";
}

TEST_F(RouterTransitions, ARouterThatSleptTakesNobodyForLost) {
  router.join(kDecodeA);
  router.ask();
  router.now += seconds(30);
  router.tell(Tick{});
  EXPECT_EQ(router.counted(Counter::kWorkersLost), 0);
  router.pass(seconds(2));
  EXPECT_EQ(router.counted(Counter::kWorkersLost), 1) << "but one that is silent then is";
}

TEST_F(RouterTransitions, WhoeverLooksAtAClusterIsNoWorkerThatCanBeLost) {
  router.tell(PeerUp{kPrefillQ});  // an observer: it never says what it is
  router.pass(seconds(8));
  EXPECT_EQ(router.counted(Counter::kWorkersLost), 0);
  router.tell(PeerDown{kPrefillQ});
  EXPECT_EQ(router.counted(Counter::kWorkersLost), 0);
  EXPECT_TRUE(router.core.workers().empty());
}

TEST_F(RouterTransitions, APausedClientStaysPausedAtTheNextWorker) {
  router.join(kDecodeA);
  router.ask();
  router.tell(ClientPause{kUid, true});
  ASSERT_EQ(router.sent<Pause>().size(), 1u);
  router.join(kDecodeB);
  router.tell(PeerDown{kDecodeA});
  ASSERT_EQ(router.sent<Pause>().size(), 1u);
  EXPECT_EQ(router.sent<Pause>()[0].first, kDecodeB);
}

TEST(Counters, EachHasANameAndWordsOfItsOwn) {
  std::set<std::string> names, words;
  for (size_t i = 0; i < static_cast<size_t>(Counter::kCount); ++i) {
    names.insert(counter_name(static_cast<Counter>(i)));
    words.insert(counter_help(static_cast<Counter>(i)));
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(Counter::kCount));
  EXPECT_EQ(words.size(), static_cast<size_t>(Counter::kCount));
}

}  // namespace
}  // namespace cheetah::cluster
