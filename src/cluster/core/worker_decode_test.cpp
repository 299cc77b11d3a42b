// SPDX-License-Identifier: MIT
// Single transitions of a decode worker.
#include <gtest/gtest.h>

#include "cluster/core/worker_probe.h"

namespace cheetah::cluster {
namespace {

TEST(DecodeTransitions, ARequestGoesThroughItsStatesAndIsSubmittedOnce) {
  Worker worker;
  worker.generate();
  EXPECT_EQ(worker.wanted<LookUpCache>().size(), 1u);
  worker.tell(CacheLooked{key_of(1), 0});
  ASSERT_EQ(worker.wanted<ReserveSpace>().size(), 1u);
  EXPECT_EQ(worker.wanted<ReserveSpace>()[0].end_token, 384) << "the last page is computed here";
  worker.tell(SpaceReserved{.key = key_of(1), .reservation = kReservation});
  ASSERT_EQ(worker.wanted<PushJob>().size(), 1u);
  EXPECT_EQ(worker.wanted<PushJob>()[0].job.reservation, kReservation);
  worker.claim();
  ASSERT_EQ(worker.sent<ClaimAnswer>().size(), 1u);
  EXPECT_TRUE(worker.sent<ClaimAnswer>()[0].second.accepted);
  worker.slab(0);
  EXPECT_EQ(worker.wanted<ImportSlab>().size(), 1u);
  worker.imported(0);
  worker.slab(1);
  worker.imported(1);
  worker.slab(2);
  worker.imported(2);
  EXPECT_TRUE(worker.wanted<EngineSubmit>().empty()) << "the prefill worker has not said that this is all";
  worker.done();
  EXPECT_EQ(worker.wanted<EngineSubmit>().size(), 1u);
  EXPECT_EQ(worker.wanted<FreeReservation>().size(), 1u);
  worker.engine(event_of({11}));
  EXPECT_EQ(worker.wanted<Unpin>().size(), 1u) << "the engine holds the pages itself";
  worker.engine(event_of({12}, true));
  EXPECT_EQ(worker.sent<Tokens>().size(), 1u);
  EXPECT_TRUE(worker.empty());
}

TEST(DecodeTransitions, AClaimIsAcceptedFromTheFirstWhoAsksForTheRightThingAndFromNobodyElse) {
  struct Case {
    const char* what;
    RequestState state;
    WorkerId from;
    uint32_t attempt;
    ReservationId reservation;
    bool accepted;
  };
  const Case kCases[] = {{"waiting for it", RequestState::kQueuedRemote, kPrefillP, 1, kReservation, true},
      {"the same worker once more", RequestState::kPrefilling, kPrefillP, 1, kReservation, true},
      {"once more while pages come", RequestState::kTransferring, kPrefillP, 1, kReservation, true},
      {"another worker, too late", RequestState::kPrefilling, kPrefillQ, 1, kReservation, false},
      {"an older attempt", RequestState::kQueuedRemote, kPrefillP, 0, kReservation, false},
      {"a newer attempt that is not here", RequestState::kQueuedRemote, kPrefillP, 2, kReservation, false},
      {"another reservation", RequestState::kQueuedRemote, kPrefillP, 1, ReservationId{43}, false},
      {"before there is a job", RequestState::kWaitSpace, kPrefillP, 1, kReservation, false},
      {"all is there already", RequestState::kReady, kPrefillP, 1, kReservation, false},
      {"tokens come already", RequestState::kDecoding, kPrefillQ, 1, kReservation, false}};
  for (const Case& one : kCases) {
    Worker worker;
    worker.reach(one.state);
    worker.claim(one.from, one.attempt, one.reservation);
    ASSERT_EQ(worker.sent<ClaimAnswer>().size(), 1u) << one.what;
    EXPECT_EQ(worker.sent<ClaimAnswer>()[0].first, one.from) << one.what;
    EXPECT_EQ(worker.sent<ClaimAnswer>()[0].second.accepted, one.accepted) << one.what;
    EXPECT_EQ(worker.counted(Counter::kJobsRefused), one.accepted ? 0 : 1) << one.what;
  }
}

TEST(DecodeTransitions, APrefillDoneThatComesTwiceChangesNothing) {
  Worker worker;
  worker.reach(RequestState::kReady);
  worker.done();
  EXPECT_TRUE(worker.out.empty());
  Worker early;
  early.reach(RequestState::kTransferring);
  early.done();
  early.done();
  EXPECT_TRUE(early.wanted<EngineSubmit>().empty()) << "two slabs are missing";
  early.imported(0);
  early.slab(1);
  early.imported(1);
  early.slab(2);
  early.imported(2);
  EXPECT_EQ(early.wanted<EngineSubmit>().size(), 1u);
  EXPECT_EQ(early.wanted<FreeReservation>().size(), 1u);
}

TEST(DecodeTransitions, SlabsAreImportedInTheirOrderWhateverOrderTheyComeIn) {
  Worker worker;
  worker.reach(RequestState::kPrefilling);
  worker.slab(2);
  EXPECT_TRUE(worker.wanted<ImportSlab>().empty());
  worker.slab(0);
  ASSERT_EQ(worker.wanted<ImportSlab>().size(), 1u);
  EXPECT_EQ(worker.wanted<ImportSlab>()[0].slab.index, 0u);
  worker.slab(0);
  EXPECT_TRUE(worker.wanted<ImportSlab>().empty()) << "doubled";
  worker.imported(0);
  EXPECT_TRUE(worker.wanted<ImportSlab>().empty()) << "the second is missing";
  worker.slab(1);
  ASSERT_EQ(worker.wanted<ImportSlab>().size(), 1u);
  EXPECT_EQ(worker.wanted<ImportSlab>()[0].slab.index, 1u);
}

TEST(DecodeTransitions, WhateverGoesWrongElsewhereThePromptIsComputedHere) {
  const std::pair<const char*, std::function<void(Worker&)>> kWays[] = {
      {"the worker fails",
          [](Worker& w) {
            w.hear(kPrefillP, PrefillFailed{key_of(1), kReservation, "no"});
          }},
      {"the worker stops", [](Worker& w) { w.hear(kPrefillP, WritesStopped{key_of(1)}); }},
      {"the worker is lost", [](Worker& w) { w.tell(PeerDown{kPrefillP}); }},
      {"nothing comes", [](Worker& w) { w.pass(seconds(4)); }},
      {"a slab is damaged", [](Worker& w) { w.imported(0, false); }},
      {"other pages come", [](Worker& w) {
         w.hear(kPrefillP,
             SlabPosted{.key = key_of(1), .reservation = kReservation, .index = 1, .first_token = 7});
       }}};
  for (const auto& [way, fail] : kWays) {
    Worker worker;
    worker.reach(RequestState::kTransferring);
    fail(worker);
    EXPECT_EQ(worker.wanted<EngineSubmit>().size(), 1u) << way;
    EXPECT_EQ(worker.counted(Counter::kFallbacks), 1) << way;
  }
}

TEST(DecodeTransitions, ASlowPrefillWorkerThatGetsOnIsWaitedForAndOneThatIsStuckIsNot) {
  Worker worker;
  worker.reach(RequestState::kPrefilling);
  const auto news = [&](int64_t tokens, WorkerId from = kPrefillP) {
    worker.hear(from, PrefillNews{key_of(1), kReservation, tokens});
  };
  for (int64_t second = 0; second < 50; second += 2) {
    worker.pass(seconds(2));
    news(second / 10);
    ASSERT_TRUE(worker.wanted<EngineSubmit>().empty()) << second;
  }
  int64_t waited = 0, given_up = 0;
  for (; given_up == 0 && waited < 60; waited += 2) {
    worker.pass(seconds(2));
    given_up = worker.counted(Counter::kFallbacks);
    news(4);
    news(100, kPrefillQ);
  }
  EXPECT_EQ(given_up, 1) << "it does not get on";
  EXPECT_EQ(waited, 14) << "20 s after it last did, of which 8 had passed, and the news of 3";
}

TEST(DecodeTransitions, AQueueThatRefusesAJobCostsNoWait) {
  Worker worker;
  worker.reach(RequestState::kQueuedRemote);
  worker.hear(WorkerId{}, PrefillFailed{key_of(1), kReservation, "queue: full"});
  EXPECT_EQ(worker.wanted<EngineSubmit>().size(), 1u);
  EXPECT_EQ(worker.wanted<FreeReservation>().size(), 1u) << "nobody could have written there";
}

TEST(DecodeTransitions, WhenTheLastPrefillWorkerIsLostAQueuedPromptIsComputedHereAtOnce) {
  Worker worker;
  worker.reach(RequestState::kQueuedRemote);
  worker.tell(PeerDown{kPrefillQ});
  EXPECT_TRUE(worker.wanted<EngineSubmit>().empty()) << "the other may take it";
  worker.tell(PeerDown{kPrefillP});
  EXPECT_EQ(worker.wanted<EngineSubmit>().size(), 1u);
  EXPECT_EQ(worker.wanted<FreeReservation>().size(), 1u);
  worker.generate(2);
  EXPECT_EQ(worker.wanted<EngineSubmit>().size(), 1u) << "and the next one too";
}

TEST(DecodeTransitions, AJobThatNobodyClaimsIsComputedHereAndALateClaimRefused) {
  Worker worker;
  worker.reach(RequestState::kQueuedRemote);
  worker.pass(milliseconds(2100));
  EXPECT_EQ(worker.wanted<EngineSubmit>().size(), 1u);
  EXPECT_EQ(worker.wanted<FreeReservation>().size(), 1u);
  worker.claim();
  EXPECT_FALSE(worker.sent<ClaimAnswer>().at(0).second.accepted);
}

// From quarantine to free: only when nobody can write there any more.
TEST(DecodeTransitions, AReservationIsFreedOnlyWhenItsWriterHasStopped) {
  Worker told;
  told.reach(RequestState::kPrefilling);
  told.hear(kRouterR, Cancel{key_of(1)});
  EXPECT_EQ(told.wanted<Quarantine>().size(), 1u);
  ASSERT_EQ(told.sent<Cancel>().size(), 1u);
  EXPECT_EQ(told.sent<Cancel>()[0].first, kPrefillP);
  EXPECT_TRUE(told.wanted<FreeReservation>().empty());
  EXPECT_EQ(told.core.outstanding().quarantined, 1);
  told.hear(kPrefillQ, WritesStopped{key_of(1)});
  EXPECT_TRUE(told.wanted<FreeReservation>().empty()) << "said by another";
  told.hear(kPrefillP, WritesStopped{key_of(1)});
  EXPECT_EQ(told.wanted<FreeReservation>().size(), 1u);
  EXPECT_TRUE(told.empty());

  Worker silent;
  silent.reach(RequestState::kPrefilling);
  silent.hear(kRouterR, Cancel{key_of(1)});
  silent.pass(milliseconds(1100));
  ASSERT_EQ(silent.wanted<FenceReservation>().size(), 1u) << "a writer that does not answer is fenced off";
  EXPECT_TRUE(silent.wanted<FreeReservation>().empty());
  silent.tell(ReservationFenced{kReservation});
  EXPECT_EQ(silent.wanted<FreeReservation>().size(), 1u);
  EXPECT_TRUE(silent.empty());
}

TEST(DecodeTransitions, AReservationIsNotFreedWhileItIsRead) {
  Worker worker;
  worker.reach(RequestState::kTransferring);
  worker.hear(kRouterR, Cancel{key_of(1)});
  worker.hear(kPrefillP, WritesStopped{key_of(1)});
  EXPECT_TRUE(worker.wanted<FreeReservation>().empty());
  worker.imported(0);
  EXPECT_EQ(worker.wanted<FreeReservation>().size(), 1u);
  EXPECT_EQ(worker.wanted<Unpin>().size(), 1u) << "of a request that is gone";
  EXPECT_TRUE(worker.empty());
}

// What is left open by a request that was cancelled, in whatever state, comes back.
void settle(Worker& worker) {
  worker.hear(kPrefillP, WritesStopped{key_of(1)});
  worker.tell(SpaceReserved{.key = key_of(1)});
  if (worker.core.outstanding().reservations > 0) worker.imported(0);
  GenerationEvent last = event_of({}, true);
  last.finish = FinishReason::kCancelled;
  worker.engine(std::move(last));
}

TEST(DecodeTransitions, ACancelInEveryStateLeavesNothingBehindAndNobodyIsToldAnyMore) {
  for (const RequestState state : kStates) {
    Worker worker;
    worker.reach(state);
    worker.hear(kRouterR, Cancel{key_of(1)});
    EXPECT_EQ(worker.wanted<EngineCancel>().size(), state >= RequestState::kReady ? 1u : 0u)
        << state_name(state);
    worker.engine(event_of({12}));
    EXPECT_TRUE(worker.sent<Tokens>().empty()) << state_name(state);
    settle(worker);
    EXPECT_TRUE(worker.sent<Tokens>().empty()) << state_name(state);
    EXPECT_TRUE(worker.empty()) << state_name(state) << "\n" << worker.core.describe();
    worker.generate();
    EXPECT_TRUE(worker.wanted<LookUpCache>().empty()) << "a late copy does not start it again";
    EXPECT_EQ(worker.counted(Counter::kDuplicatesDropped), 1) << state_name(state);
  }
}

TEST(DecodeTransitions, ALostRouterInEveryStateLeavesNothingBehind) {
  for (const RequestState state : kStates) {
    Worker worker;
    worker.reach(state);
    worker.tell(PeerDown{kRouterR});
    EXPECT_EQ(worker.counted(Counter::kOrphansCancelled), 1) << state_name(state);
    settle(worker);
    EXPECT_TRUE(worker.empty()) << state_name(state) << "\n" << worker.core.describe();
  }
}

TEST(DecodeTransitions, ALostPrefillWorkerInEveryStateCostsTheRequestNothingButTime) {
  for (const RequestState state : kStates) {
    Worker worker;
    worker.reach(state);
    worker.tell(PeerDown{kPrefillP});
    const bool had_it = state == RequestState::kPrefilling || state == RequestState::kTransferring;
    EXPECT_EQ(worker.wanted<EngineSubmit>().size(), had_it ? 1u : 0u) << state_name(state);
    EXPECT_EQ(worker.wanted<FenceReservation>().size(), had_it ? 1u : 0u) << state_name(state);
    if (!had_it) continue;
    if (state == RequestState::kTransferring) worker.imported(0);
    worker.tell(ReservationFenced{kReservation});
    EXPECT_EQ(worker.wanted<FreeReservation>().size(), 1u) << state_name(state);
    worker.engine(event_of({11}, true));
    EXPECT_EQ(worker.sent<Tokens>().size(), 1u) << state_name(state);
    EXPECT_TRUE(worker.empty()) << state_name(state);
  }
}

TEST(DecodeTransitions, ANewerAttemptTakesThePlaceOfAnOlderOne) {
  Worker worker;
  worker.reach(RequestState::kDecoding);
  worker.generate(2);
  EXPECT_EQ(worker.wanted<EngineCancel>().size(), 1u);
  worker.engine(event_of({12}), 1);
  EXPECT_TRUE(worker.sent<Tokens>().empty());
  worker.generate(1);
  EXPECT_EQ(worker.counted(Counter::kDuplicatesDropped), 1);
}

TEST(DecodeTransitions, AProbeIsAnsweredWithWhatWasSaidOrThatNothingIsKnown) {
  Worker worker;
  worker.reach(RequestState::kDecoding);
  worker.hear(kRouterR, Probe{key_of(1)});
  EXPECT_EQ(worker.sent<ProbeAnswer>().at(0).second.next_sequence, 1u);
  worker.hear(kRouterR, Probe{key_of(2)});
  EXPECT_EQ(worker.sent<GaveUp>().at(0).second.reason, GiveUpReason::kUnknown);
}

TEST(DecodeTransitions, AfterThreeFailuresElsewhereThePromptsStayHereForAWhile) {
  Worker worker;
  for (uint32_t attempt = 1; attempt <= 3; ++attempt) {
    worker.generate(attempt);
    worker.tell(CacheLooked{key_of(attempt), 0});
    worker.tell(SpaceReserved{.key = key_of(attempt), .reservation = ReservationId{attempt}});
    worker.hear(WorkerId{}, PrefillFailed{key_of(attempt), ReservationId{attempt}, "queue: full"});
  }
  EXPECT_EQ(worker.counted(Counter::kBreakerOpened), 1);
  worker.generate(4);
  EXPECT_EQ(worker.wanted<EngineSubmit>().size(), 1u) << "at once";
  worker.pass(milliseconds(5100));
  worker.generate(5);
  EXPECT_EQ(worker.wanted<LookUpCache>().size(), 1u) << "and then it is tried again";
}

TEST(DecodeTransitions, APeerThatLeftIsForgottenWhenItsLinkBreaks) {
  Worker worker;
  const int64_t before = worker.core.num_peers();
  for (uint64_t life = 100; life < 110; ++life) {
    worker.tell(RegistryPut{ready_worker(WorkerId{life}, Role::kPrefill)});
    worker.tell(PeerUp{WorkerId{life}});
    worker.tell(RegistryGone{WorkerId{life}});
    worker.tell(PeerDown{WorkerId{life}});
    worker.tell(PeerUp{WorkerId{life + 100}});  // from a list of peers: the registry never has it
    worker.tell(PeerDown{WorkerId{life + 100}});
  }
  EXPECT_EQ(worker.core.num_peers(), before);
}

}  // namespace
}  // namespace cheetah::cluster
