// SPDX-License-Identifier: MIT
// A client comes back for the rest of an answer that another router had: single transitions of both sides.
#include <gtest/gtest.h>

#include "cluster/core/router_probe.h"
#include "cluster/core/said_tokens.h"
#include "cluster/core/worker_probe.h"

namespace cheetah::cluster {
namespace {

// ---- The router that is asked ----

class ComesBack : public testing::Test {
 protected:
  void come_back(std::vector<int64_t> has = {3}, int n = 1) {
    ClientRequest client{.uid = kUid, .request = request_of(8, n), .recall = "answer", .has = std::move(has)};
    router.tell(std::move(client));
  }
  void recalled(WorkerId from, std::vector<std::vector<int32_t>> choices, int64_t max_tokens = 9) {
    router.hear(
        from, Recalled{.uid = kUid, .known = true, .max_tokens = max_tokens, .choices = std::move(choices)});
  }
  void deny(WorkerId from) { router.hear(from, Recalled{.uid = kUid}); }
  Generate sent_to(WorkerId worker) {
    for (const auto& [to, generate] : router.sent<Generate>())
      if (to == worker) return generate;
    ADD_FAILURE() << "nothing was sent to that worker";
    return {};
  }
  // As one that has been up for long.
  void settle() { router.pass_with({kDecodeA, kDecodeB}, seconds(4)); }

  LeastLoaded policy;
  Router router{policy};
};

TEST_F(ComesBack, TheWorkerThatKnowsTheBeginningGoesOnFromWhatTheClientHas) {
  router.join(kDecodeA);
  router.join(kDecodeB);
  come_back({3});
  EXPECT_EQ(router.sent<Recall>().size(), 2u);
  EXPECT_TRUE(router.sent<Generate>().empty()) << "it is not known yet from where";
  recalled(kDecodeB, {{11, 12, 13, 14, 15}}, 20);
  const Generate generate = sent_to(kDecodeB);
  ASSERT_EQ(generate.resume.size(), 1u);
  EXPECT_EQ(generate.resume[0].tokens, (std::vector<int32_t>{11, 12, 13}))
      << "the client lacks the logprobs of others";
  EXPECT_EQ(generate.told, std::vector<int64_t>{0}) << "the router has to hear it all";
  EXPECT_EQ(generate.recall, "answer") << "it may be cut again";
  EXPECT_EQ(generate.request.max_tokens, 20) << "as the other router had made it";
  EXPECT_EQ(router.counted(Counter::kResumed), 1);
  router.token(kDecodeB, 1, 0, 0, event_of({11}));
  router.token(kDecodeB, 1, 1, 1, event_of({12}));
  EXPECT_EQ(router.tokens(), std::vector<int32_t>{12});
}

TEST_F(ComesBack, LostAgainOnTheWayItGoesOnElsewhereWithoutSayingTwice) {
  router.join(kDecodeA);
  router.join(kDecodeB);
  come_back({3});
  recalled(kDecodeB, {{11, 12, 13}});
  router.token(kDecodeB, 1, 0, 0, event_of({11}));
  router.tell(PeerDown{kDecodeB});
  const Generate again = sent_to(kDecodeA);
  EXPECT_EQ(again.resume[0].tokens, (std::vector<int32_t>{11, 12, 13}));
  EXPECT_EQ(again.told, std::vector<int64_t>{1});
  router.token(kDecodeA, 2, 0, 1, event_of({12}));
  router.token(kDecodeA, 2, 1, 2, event_of({13}));
  router.token(kDecodeA, 2, 2, 3, event_of({14}));
  router.tell(PeerUp{kDecodeB});
  router.hear(kDecodeB, Hello{ready_worker(kDecodeB, Role::kDecode)});
  router.tell(PeerDown{kDecodeA});
  const Generate third = sent_to(kDecodeB);
  EXPECT_EQ(third.resume[0].tokens, (std::vector<int32_t>{11, 12, 13, 14}));
  EXPECT_TRUE(third.told.empty()) << "the client has all of it";
}

TEST_F(ComesBack, WhenNobodyRemembersItBeginsAnewAndIsAdmittedAsANewOne) {
  router.join(kDecodeA);
  router.join(kDecodeB);
  settle();
  come_back();
  deny(kDecodeA);
  EXPECT_TRUE(router.sent<Generate>().empty());
  deny(kDecodeB);
  ASSERT_EQ(router.sent<Generate>().size(), 1u);
  EXPECT_TRUE(router.sent<Generate>()[0].second.resume.empty());
  EXPECT_EQ(router.counted(Counter::kResumedAnew), 1);
}

TEST_F(ComesBack, AWorkerThatDoesNotAnswerIsNotWaitedForForLong) {
  router.join(kDecodeA);
  router.join(kDecodeB);
  settle();
  come_back();
  deny(kDecodeA);
  router.pass_with({kDecodeA, kDecodeB}, milliseconds(600));
  EXPECT_EQ(router.sent<Generate>().size(), 1u);
}

TEST_F(ComesBack, ARouterThatHasJustStartedAsksThoseThatComeLater) {
  come_back();
  EXPECT_TRUE(router.sent<Recall>().empty());
  router.pass(milliseconds(1500));
  EXPECT_EQ(router.ends(), 0) << "a half answered request waits longer for a worker";
  router.join(kDecodeA);
  EXPECT_EQ(router.sent<Recall>().size(), 1u);
  deny(kDecodeA);
  EXPECT_TRUE(router.sent<Generate>().empty()) << "others may come: this router does not know them all yet";
  router.join(kDecodeB);
  EXPECT_EQ(router.sent<Recall>().size(), 1u);
  recalled(kDecodeB, {{1, 2}});
  EXPECT_EQ(sent_to(kDecodeB).resume[0].tokens, (std::vector<int32_t>{1, 2}));
}

TEST_F(ComesBack, WorkersOfTheReleaseBeforeAreNotAskedAndGetNoBeginning) {
  router.tell(PeerUp{kDecodeA});
  WorkerDescriptor old = ready_worker(kDecodeA, Role::kDecode);
  old.wire = 4;
  router.hear(kDecodeA, Hello{old});
  router.join(kDecodeB);
  come_back();
  EXPECT_EQ(router.sent<Recall>().size(), 1u);
  recalled(kDecodeB, {{1, 2}});
  router.tell(PeerDown{kDecodeB});
  const Generate generate = sent_to(kDecodeA);
  EXPECT_TRUE(generate.resume.empty()) << "it cannot say it again, so it says it anew";
  EXPECT_TRUE(generate.told.empty());
}

TEST_F(ComesBack, AnAnswerOfAnotherShapeIsNotBelieved) {
  router.join(kDecodeA);
  come_back({1, 1}, 2);
  recalled(kDecodeA, {{1}, {2}, {3}});
  EXPECT_TRUE(sent_to(kDecodeA).resume.empty());
}

// ---- The worker that remembers ----

class Remembers : public testing::Test {
 protected:
  void answer(std::vector<int32_t> tokens, bool done = false) {
    worker.hear(kRouterR, Generate{.key = key_of(1), .request = request_of(8), .recall = "answer"});
    for (const int32_t token : tokens) worker.engine(event_of({token}));
    if (done) worker.engine(event_of({99}, true));
  }
  Recalled ask(const std::string& name = "answer") {
    worker.hear(kDecodeB, Recall{RequestUid{7}, name});
    const auto said = worker.sent<Recalled>();
    return said.empty() ? Recalled{} : said[0].second;
  }
  Worker worker;
};

TEST_F(Remembers, WhatItSaidToARouterThatIsGone) {
  answer({11, 12});
  worker.tell(PeerDown{kRouterR});
  EXPECT_EQ(worker.wanted<EngineCancel>().size(), 1u) << "it does not work for nobody";
  worker.engine(event_of({13}));
  worker.engine(error_event(ErrorKind::kNone));
  const Recalled said = ask();
  EXPECT_TRUE(said.known);
  EXPECT_EQ(said.uid, RequestUid{7});
  EXPECT_EQ(said.choices, (std::vector<std::vector<int32_t>>{{11, 12}}));
  EXPECT_EQ(said.max_tokens, request_of(8).max_tokens);
  EXPECT_FALSE(ask("another").known);
  EXPECT_FALSE(ask("").known);
}

TEST_F(Remembers, AnAnswerThatWasWholeAndOneThatStillRuns) {
  answer({11});
  EXPECT_EQ(ask().choices, (std::vector<std::vector<int32_t>>{{11}}));
  worker.engine(event_of({12}, true));
  EXPECT_EQ(ask().choices, (std::vector<std::vector<int32_t>>{{11, 12}}));
  worker.pass(seconds(61));
  EXPECT_FALSE(ask().known) << "not forever";
}

TEST_F(Remembers, TheBeginningThatAnotherWorkerHadSaid) {
  worker.hear(kRouterR, Generate{.key = key_of(2),
                            .request = request_of(8),
                            .resume = {{.tokens = {1, 2, 3}}},
                            .recall = "answer",
                            .told = {1}});
  const auto submitted = worker.wanted<EngineSubmit>();
  ASSERT_EQ(submitted.size(), 1u);
  EXPECT_EQ(submitted[0].told, std::vector<int64_t>{1});
  worker.engine(event_of({2}), 2);
  EXPECT_EQ(worker.sent<Tokens>()[0].second.first_index, 1);
  worker.engine(event_of({3}), 2);
  worker.engine(event_of({4}), 2);
  EXPECT_EQ(worker.sent<Tokens>()[0].second.first_index, 3);
  EXPECT_EQ(ask().choices, (std::vector<std::vector<int32_t>>{{1, 2, 3, 4}}));
}

TEST(RememberedAnswers, TheOldestGoFirstWhenThereAreTooManyTokens) {
  RememberedAnswers kept(seconds(60), 1000);
  const Time now = Time{} + seconds(1);
  for (int i = 0; i < 10; ++i)
    kept.add({.recall = std::to_string(i), .choices = {std::vector<int32_t>(200, i)}}, now);
  EXPECT_EQ(kept.find("6", now), nullptr);
  ASSERT_NE(kept.find("9", now), nullptr);
  EXPECT_EQ(kept.find("9", now)->choices[0][0], 9);
  kept.add({.recall = "9", .choices = {{5}}}, now + seconds(1));
  EXPECT_EQ(kept.find("9", now)->choices[0].size(), 1u) << "the newest word counts";
  kept.add({.recall = "big", .choices = {std::vector<int32_t>(5000, 1)}}, now + seconds(2));
  EXPECT_EQ(kept.find("big", now), nullptr);
  EXPECT_EQ(kept.find("9", now), nullptr);
}

}  // namespace
}  // namespace cheetah::cluster
