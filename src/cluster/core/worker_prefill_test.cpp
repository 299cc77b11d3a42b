// SPDX-License-Identifier: MIT
// Single transitions of a prefill worker, and of workers that come, go and change.
#include <gtest/gtest.h>

#include "cluster/core/worker_probe.h"

namespace cheetah::cluster {
namespace {

struct PrefillWorker : Worker {
  PrefillWorker() : Worker(Role::kPrefill, kPrefillP) {}
  void run_to_first_slab() {
    deliver();
    answer_claim(true);
    tell(ExportProgress{.key = key_of(1), .tokens_ready = 128});
  }
};

TEST(PrefillTransitions, AJobIsClaimedComputedSentSlabBySlabAndAcknowledged) {
  PrefillWorker worker;
  worker.deliver();
  ASSERT_EQ(worker.sent<Claimed>().size(), 1u);
  EXPECT_EQ(worker.sent<Claimed>()[0].first, kDecodeB);
  EXPECT_TRUE(worker.wanted<StartExport>().empty()) << "nothing before the answer";
  worker.answer_claim(true);
  EXPECT_EQ(worker.wanted<StartExport>().size(), 1u);
  worker.tell(ExportProgress{.key = key_of(1), .tokens_ready = 100});
  EXPECT_TRUE(worker.wanted<PostSlab>().empty()) << "a slab is not whole yet";
  worker.tell(ExportProgress{.key = key_of(1), .tokens_ready = 256, .finished = true});
  EXPECT_EQ(worker.wanted<PostSlab>().size(), 2u);
  worker.tell(SlabSent{.key = key_of(1), .index = 0, .sent = true, .checksum = 5});
  EXPECT_EQ(worker.sent<SlabPosted>().at(0).second.checksum, 5u);
  EXPECT_TRUE(worker.wanted<AckJob>().empty());
  worker.tell(SlabSent{.key = key_of(1), .index = 1, .sent = true});
  EXPECT_EQ(worker.sent<PrefillDone>().at(0).second.end_token, 256);
  EXPECT_EQ(worker.wanted<AckJob>().size(), 1u);
  EXPECT_EQ(worker.wanted<ReleaseExport>().size(), 1u);
  EXPECT_TRUE(worker.empty());
}

TEST(PrefillTransitions, AClaimThatIsRefusedOrNeverAnsweredEndsTheJob) {
  PrefillWorker refused;
  refused.deliver();
  refused.answer_claim(false);
  EXPECT_EQ(refused.wanted<AckJob>().size(), 1u);
  EXPECT_TRUE(refused.empty());
  PrefillWorker alone;
  alone.deliver();
  alone.pass(milliseconds(1100));
  EXPECT_EQ(alone.wanted<AckJob>().size(), 1u);
  EXPECT_TRUE(alone.empty());
  alone.answer_claim(true);
  EXPECT_EQ(alone.sent<PrefillFailed>().size(), 1u) << "too late: who waits for the pages should not";
}

TEST(PrefillTransitions, AJobThatIsNotWantedHereGoesToAnotherAndOneForNobodyGoesAway) {
  PrefillWorker full;
  full.deliver(1, 1);
  full.deliver(2, 2);
  full.deliver(3, 3);
  EXPECT_EQ(full.wanted<NackJob>().size(), 1u);
  EXPECT_EQ(full.core.jobs_wanted(), 0);
  PrefillWorker leaving;
  leaving.tell(DrainRequested{seconds(10)});
  leaving.deliver();
  EXPECT_EQ(leaving.wanted<NackJob>().size(), 1u);
  PrefillWorker apart;
  apart.tell(PeerDown{kDecodeB});
  apart.deliver();
  EXPECT_EQ(apart.wanted<AckJob>().size(), 1u) << "its asker cannot be told";
  Worker decoding;
  decoding.deliver();
  EXPECT_EQ(decoding.wanted<NackJob>().size(), 1u) << "not its role";
}

TEST(PrefillTransitions, AJobThatComesTwiceIsDoneOnceAndTheLaterDeliveryAcknowledged) {
  PrefillWorker worker;
  worker.deliver(1);
  worker.deliver(2);
  EXPECT_TRUE(worker.sent<Claimed>().empty());
  worker.answer_claim(false);
  ASSERT_EQ(worker.wanted<AckJob>().size(), 1u);
  EXPECT_EQ(worker.wanted<AckJob>()[0].delivery, DeliveryId{2});
}

TEST(PrefillTransitions, ALongJobIsExtendedAndEndsAtItsDeadline) {
  PrefillWorker worker;
  worker.deliver();
  worker.answer_claim(true);
  worker.pass(milliseconds(5100));
  EXPECT_EQ(worker.wanted<ExtendJob>().size(), 1u);
  worker.pass(seconds(5));
  EXPECT_EQ(worker.sent<PrefillFailed>().size(), 1u);
  EXPECT_TRUE(worker.empty());
}

TEST(PrefillTransitions, WhileItComputesItTellsHowFarItIs) {
  PrefillWorker worker;
  worker.deliver();
  worker.pass(milliseconds(900));
  EXPECT_TRUE(worker.sent<PrefillNews>().empty()) << "the claim is not answered";
  worker.answer_claim(true);
  worker.pass(milliseconds(1000));
  EXPECT_EQ(worker.sent<PrefillNews>().at(0).second.tokens_ready, 0);
  worker.tell(ExportProgress{.key = key_of(1), .tokens_ready = 100});
  worker.pass(milliseconds(1000));
  EXPECT_EQ(worker.sent<PrefillNews>().at(0).second.tokens_ready, 100);
  EXPECT_EQ(worker.sent<PrefillNews>().at(0).first, kDecodeB);
  worker.tell(ExportProgress{.key = key_of(1), .failed = true});
  worker.pass(seconds(3));
  EXPECT_TRUE(worker.sent<PrefillNews>().empty());
}

// It writes for the last time, then says so.
TEST(PrefillTransitions, WhoeverStopsItHearsOfItOnlyWhenNothingIsWrittenAnyMore) {
  PrefillWorker worker;
  worker.run_to_first_slab();
  worker.hear(kDecodeB, Cancel{key_of(1)});
  EXPECT_EQ(worker.wanted<FenceWrites>().size(), 1u);
  EXPECT_TRUE(worker.sent<WritesStopped>().empty());
  worker.tell(SlabSent{.key = key_of(1), .index = 0, .sent = true});
  EXPECT_TRUE(worker.sent<SlabPosted>().empty());
  worker.tell(WritesFenced{key_of(1)});
  EXPECT_EQ(worker.sent<WritesStopped>().size(), 1u);
  EXPECT_TRUE(worker.empty());
  worker.hear(kDecodeB, Cancel{key_of(1)});
  EXPECT_EQ(worker.sent<WritesStopped>().size(), 1u) << "also where the job is long forgotten";
}

TEST(PrefillTransitions, ALostDecodeWorkerInEveryStageLeavesNothingBehind) {
  PrefillWorker claiming;
  claiming.deliver();
  claiming.tell(PeerDown{kDecodeB});
  EXPECT_TRUE(claiming.empty());
  PrefillWorker computing;
  computing.deliver();
  computing.answer_claim(true);
  computing.tell(PeerDown{kDecodeB});
  EXPECT_EQ(computing.wanted<ReleaseExport>().size(), 1u);
  EXPECT_TRUE(computing.empty());
  PrefillWorker sending;
  sending.run_to_first_slab();
  sending.tell(PeerDown{kDecodeB});
  EXPECT_FALSE(sending.empty()) << "a slab is on its way";
  sending.tell(SlabSent{.key = key_of(1), .index = 0});
  sending.tell(WritesFenced{key_of(1)});
  EXPECT_TRUE(sending.empty());
}

TEST(PrefillTransitions, AFailureIsTheDecodeWorkersToHear) {
  PrefillWorker engine;
  engine.deliver();
  engine.answer_claim(true);
  engine.tell(ExportProgress{.key = key_of(1), .failed = true, .why = "no pages"});
  EXPECT_EQ(engine.sent<PrefillFailed>().at(0).second.why, "no pages");
  EXPECT_TRUE(engine.empty());
  PrefillWorker link;
  link.run_to_first_slab();
  link.tell(SlabSent{.key = key_of(1), .index = 0, .sent = false, .why = "reset"});
  EXPECT_EQ(link.sent<PrefillFailed>().size(), 1u);
  EXPECT_TRUE(link.empty());
}

TEST(RoleTransitions, AWorkerThatDrainsTakesNothingNewAndLeavesWhenItHasNothingLeft) {
  Worker worker;
  worker.reach(RequestState::kDecoding);
  worker.tell(DrainRequested{seconds(10)});
  EXPECT_EQ(worker.wanted<Announce>().at(0).descriptor.state, WorkerState::kDraining);
  worker.generate(2);
  EXPECT_EQ(worker.sent<GaveUp>().at(0).second.reason, GiveUpReason::kDraining);
  EXPECT_TRUE(worker.wanted<Drained>().empty());
  worker.engine(event_of({12}, true));
  EXPECT_EQ(worker.wanted<Drained>().size(), 1u);
  worker.tell(Tick{});
  EXPECT_TRUE(worker.wanted<Drained>().empty()) << "said once";
}

TEST(RoleTransitions, WhatIsNotDoneAtTheEndOfADrainIsHandedOver) {
  Worker worker;
  worker.reach(RequestState::kDecoding);
  worker.tell(DrainRequested{milliseconds(500)});
  worker.pass(milliseconds(600));
  EXPECT_EQ(worker.sent<GaveUp>().at(0).second.reason, GiveUpReason::kDraining);
  EXPECT_EQ(worker.counted(Counter::kHandedOver), 1);
  EXPECT_EQ(worker.wanted<EngineCancel>().size(), 1u);
  worker.engine(event_of({}, true));
  EXPECT_EQ(worker.wanted<Drained>().size(), 1u);
}

TEST(RoleTransitions, AFlipDrainsWarmsUpAndServesUnderANewEpoch) {
  Worker worker;
  worker.reach(RequestState::kDecoding);
  worker.hear(kRouterR, FlipRole{Role::kPrefill, 2});
  EXPECT_EQ(worker.core.descriptor().state, WorkerState::kDraining);
  EXPECT_EQ(worker.core.descriptor().role, Role::kDecode) << "until it has nothing left";
  worker.engine(event_of({12}, true));
  EXPECT_EQ(worker.wanted<WarmUp>().size(), 1u);
  EXPECT_EQ(worker.core.descriptor().epoch, 2u);
  EXPECT_EQ(worker.core.jobs_wanted(), 0) << "it is not warm yet";
  worker.tell(WarmedUp{});
  EXPECT_EQ(worker.core.descriptor().state, WorkerState::kReady);
  EXPECT_GT(worker.core.jobs_wanted(), 0);
  EXPECT_TRUE(worker.wanted<Drained>().empty());
}

TEST(RoleTransitions, AFlipIsRefusedTooSoonOutOfDateOrToSomethingAWorkerIsNot) {
  const std::pair<const char*, std::function<void(Worker&)>> kCases[] = {
      {"an epoch that is not newer",
          [](Worker& w) {
            w.hear(kRouterR, FlipRole{Role::kPrefill, 1});
          }},
      {"an epoch that would make all later ones look old",
          [](Worker& w) {
            w.hear(kRouterR, FlipRole{Role::kPrefill, uint64_t{1} << 60});
          }},
      {"a router",
          [](Worker& w) {
            w.hear(kRouterR, FlipRole{Role::kRouter, 2});
          }},
      {"a worker that leaves",
          [](Worker& w) {
            w.reach(RequestState::kDecoding);
            w.tell(DrainRequested{seconds(10)});
            w.hear(kRouterR, FlipRole{Role::kPrefill, 2});
          }},
      {"within the dwell time", [](Worker& w) {
         w.hear(kRouterR, FlipRole{Role::kPrefill, 2});
         w.tell(WarmedUp{});
         w.pass(seconds(29), seconds(1));
         w.hear(kRouterR, FlipRole{Role::kDecode, 3});
       }}};
  for (const auto& [what, flip] : kCases) {
    Worker worker;
    flip(worker);
    EXPECT_EQ(worker.counted(Counter::kFlipsRefused), 1) << what;
  }
  Worker dwelt;
  dwelt.hear(kRouterR, FlipRole{Role::kPrefill, 2});
  dwelt.tell(WarmedUp{});
  dwelt.pass(seconds(31), seconds(1));
  dwelt.hear(kRouterR, FlipRole{Role::kDecode, 3});
  EXPECT_EQ(dwelt.core.descriptor().role, Role::kDecode);
}

TEST(RoleTransitions, ADrainInTheMiddleOfAFlipIsADrain) {
  Worker worker;
  worker.reach(RequestState::kDecoding);
  worker.hear(kRouterR, FlipRole{Role::kPrefill, 2});
  worker.tell(DrainRequested{seconds(10)});
  worker.engine(event_of({12}, true));
  EXPECT_EQ(worker.wanted<Drained>().size(), 1u);
  EXPECT_TRUE(worker.wanted<WarmUp>().empty());
}

}  // namespace
}  // namespace cheetah::cluster
