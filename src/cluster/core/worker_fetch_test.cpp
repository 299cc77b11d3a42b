// SPDX-License-Identifier: MIT
// A prefix that another worker's cache holds, from both sides.
#include "cluster/core/router_probe.h"
#include "cluster/core/worker_probe.h"

namespace cheetah::cluster {
namespace {

// Up to the job that asks for 256 of the prompt's 400 tokens.
struct Fetching : Worker {
  Fetching() {
    hear(kRouterR, FetchFrom{key_of(1), kDecodeB, 256});
    hear(kRouterR, Generate{.key = key_of(1), .request = request_of(kPromptTokens)});
    tell(CacheLooked{key_of(1), 0});
    tell(SpaceReserved{.key = key_of(1), .reservation = kReservation});
  }
};

TEST(PrefixFetches, TheWorkerThatHasThePrefixIsAskedForIt) {
  Fetching worker;
  const auto jobs = worker.sent<FetchJob>();
  ASSERT_EQ(jobs.size(), 1u);
  EXPECT_EQ(jobs[0].first, kDecodeB);
  EXPECT_EQ(jobs[0].second.job.end_token, 256);
  EXPECT_TRUE(worker.wanted<PushJob>().empty()) << "nobody else has it";
  worker.claim(kDecodeB);
  for (const uint32_t index : {0u, 1u}) {
    worker.slab(index, kDecodeB);
    worker.imported(index);
  }
  worker.hear(
      kDecodeB, PrefillDone{.key = key_of(1), .reservation = kReservation, .end_token = 256, .num_slabs = 2});
  EXPECT_EQ(worker.wanted<EngineSubmit>().size(), 1u) << "the rest is computed here";
  worker.engine(event_of({7}, true));
  EXPECT_TRUE(worker.empty()) << worker.core.describe();
}

TEST(PrefixFetches, WhatCannotBeFetchedIsComputedAndHoldsNothingAgainstPrefillWorkers) {
  for (const bool lost : {false, true}) {
    Fetching worker;
    if (lost)
      worker.tell(PeerDown{kDecodeB});
    else
      worker.hear(kDecodeB, PrefillFailed{key_of(1), kReservation, "it is not in the cache any more"});
    EXPECT_EQ(worker.wanted<EngineSubmit>().size(), 1u);
    EXPECT_EQ(worker.counted(Counter::kPrefixFetchesFailed), 1);
    EXPECT_EQ(worker.counted(Counter::kFallbacks), 0);
    EXPECT_EQ(worker.counted(Counter::kBreakerOpened), 0);
  }
  Worker stranger;
  stranger.hear(kRouterR, FetchFrom{key_of(1), WorkerId{0x999}, 256});
  stranger.hear(kRouterR, Generate{.key = key_of(1), .request = request_of(kPromptTokens)});
  EXPECT_EQ(stranger.wanted<EngineSubmit>().size(), 1u) << "there is no link to it";
}

TEST(PrefixFetches, AWorkerOfAnyRoleSendsWhatItsCacheHolds) {
  Worker holder(Role::kDecode);
  holder.hear(kDecodeB, FetchJob{Worker::job()});
  ASSERT_EQ(holder.sent<Claimed>().size(), 1u);
  holder.answer_claim(true);
  const auto exports = holder.wanted<StartExport>();
  ASSERT_EQ(exports.size(), 1u);
  EXPECT_TRUE(exports[0].only_cached);
  holder.tell(ExportProgress{.key = key_of(1), .failed = true, .why = "it is not in the cache any more"});
  holder.tell(WritesFenced{key_of(1)});
  EXPECT_TRUE(holder.empty()) << holder.core.describe();

  Worker decoder(Role::kDecode);
  decoder.hear(kDecodeB, Worker::job());
  EXPECT_EQ(decoder.sent<PrefillFailed>().size(), 1u) << "it computes for nobody";
}

TEST(PrefixFetches, ARouterSaysWhereThePrefixIsBeforeItAsks) {
  struct Fetcher : LeastLoaded {
    Placement route(const RouteQuestion& question) override {
      Placement placement = LeastLoaded::route(question);
      placement.fetch_from = kDecodeB;
      placement.fetch_tokens = 128;
      return placement;
    }
  } policy;
  Router router(policy);
  router.join(kDecodeA);
  router.ask();
  const auto fetches = router.sent<FetchFrom>();
  ASSERT_EQ(fetches.size(), 1u);
  EXPECT_EQ(fetches[0].second.key, key_of(1));
  EXPECT_EQ(router.counted(Counter::kPrefixFetches), 1);
  size_t fetch_at = 0, generate_at = 0;
  for (size_t i = 0; i < router.out.size(); ++i)
    if (const auto* said = std::get_if<SendMessage>(&router.out[i])) {
      if (std::holds_alternative<FetchFrom>(said->message)) fetch_at = i;
      if (std::holds_alternative<Generate>(said->message)) generate_at = i;
    }
  EXPECT_LT(fetch_at, generate_at);
}

}  // namespace
}  // namespace cheetah::cluster
