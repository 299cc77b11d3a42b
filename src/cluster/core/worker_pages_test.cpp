// SPDX-License-Identifier: MIT
// Single steps of a worker: jobs for pages that are not like its own, traces, and routers that do not keep
// up.
#include <gtest/gtest.h>

#include "cluster/core/worker_core.h"

namespace cheetah::cluster {
namespace {

constexpr WorkerId kSelf{1}, kOther{2}, kRouter{3};
constexpr RequestKey kKey{RequestUid{77}, Attempt{1}};
constexpr const char* kTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

KvDescriptor pages(int32_t page_tokens, const char* dtype = "F16") {
  const int64_t number = std::string(dtype) == "F32" ? 4 : 2;
  return {.model = "m",
      .dtype = dtype,
      .order = "keys_by_dimension",
      .page_tokens = page_tokens,
      .num_layers = 2,
      .num_kv_heads = 2,
      .key_dim = 8,
      .value_dim = 8,
      .windows = {0},
      .page_bytes = page_tokens * 2 * 2 * 16 * number};
}

// A worker that is ready, and what it said last.
struct Probe {
  explicit Probe(Role role, int32_t page_tokens) : core(config_of(role, page_tokens)) {
    for (const WorkerId peer : {kOther, kRouter}) tell(PeerUp{peer});
    tell(WarmedUp{});
    WorkerDescriptor other;
    other.id = kOther;
    other.role = Role::kPrefill;
    other.state = WorkerState::kReady;
    tell(RegistryPut{other});
  }
  static WorkerConfig config_of(Role role, int32_t page_tokens) {
    WorkerConfig config;
    config.descriptor.id = kSelf;
    config.descriptor.role = role;
    config.descriptor.kv = pages(page_tokens);
    return config;
  }
  void tell(WorkerInput input) {
    out.clear();
    core.handle(std::move(input), now += std::chrono::milliseconds(10), out);
    core.check_invariants();
  }
  void hear(WorkerId from, Message message) { tell(PeerMessage{from, std::move(message)}); }
  template <class Kind>
  std::vector<Kind> wanted() const {
    std::vector<Kind> found;
    for (const WorkerOutput& output : out)
      if (const auto* one = std::get_if<Kind>(&output)) found.push_back(*one);
    return found;
  }
  template <class Kind>
  std::vector<Kind> said() const {
    std::vector<Kind> found;
    for (const SendMessage& message : wanted<SendMessage>())
      if (const auto* one = std::get_if<Kind>(&message.message)) found.push_back(*one);
    return found;
  }

  WorkerCore core;
  Time now = Time{} + std::chrono::hours(1);
  std::vector<WorkerOutput> out;
};

PrefillJob job_for(const KvDescriptor& kv, int64_t first, int64_t end) {
  return {.key = kKey,
      .reply_to = kOther,
      .tokens = std::vector<int32_t>(static_cast<size_t>(end), 5),
      .first_token = first,
      .end_token = end,
      .slab_tokens = 128,
      .reservation = ReservationId{9},
      .kv = kv,
      .time_left = std::chrono::seconds(10),
      .trace = kTrace};
}

TEST(PrefillWorker, ReachesAsFarAsWholePagesOfBothDo) {
  Probe worker(Role::kPrefill, 64);
  worker.hear(kOther, job_for(pages(16), 48, 400));
  ASSERT_EQ(worker.said<Claimed>().size(), 1u);
  EXPECT_EQ(worker.said<Claimed>()[0].end_token, 384);
  worker.hear(kOther, ClaimAnswer{kKey, ReservationId{9}, true});
  ASSERT_EQ(worker.wanted<StartExport>().size(), 1u);
  EXPECT_EQ(worker.wanted<StartExport>()[0].tokens.size(), 384u);
  worker.tell(ExportProgress{.key = kKey, .tokens_ready = 128});
  EXPECT_TRUE(worker.wanted<PostSlab>().empty()) << "tokens 48 to 176 end in the page that begins at 128";
  worker.tell(ExportProgress{.key = kKey, .tokens_ready = 256});
  ASSERT_EQ(worker.wanted<PostSlab>().size(), 1u);
  EXPECT_EQ(worker.wanted<PostSlab>()[0].first_token, 48);
  worker.tell(ExportProgress{.key = kKey, .tokens_ready = 384, .finished = true});
  ASSERT_EQ(worker.wanted<PostSlab>().size(), 2u);
  EXPECT_EQ(worker.wanted<PostSlab>()[1].num_tokens, 384 - 304);
  for (uint32_t i = 0; i < 3; ++i) worker.tell(SlabSent{.key = kKey, .index = i, .sent = true});
  ASSERT_EQ(worker.said<PrefillDone>().size(), 1u);
  EXPECT_EQ(worker.said<PrefillDone>()[0].end_token, 384);
  EXPECT_EQ(worker.said<PrefillDone>()[0].slabs_hidden, 1u);
}

TEST(PrefillWorker, WithoutAWholePageToSendIsDoneAtOnce) {
  Probe worker(Role::kPrefill, 128);
  worker.hear(kOther, job_for(pages(16), 0, 112));
  worker.hear(kOther, ClaimAnswer{kKey, ReservationId{9}, true});
  ASSERT_EQ(worker.said<PrefillDone>().size(), 1u);
  EXPECT_EQ(worker.said<PrefillDone>()[0].end_token, 0);
  EXPECT_EQ(worker.core.outstanding().jobs, 0);
}

TEST(PrefillWorker, RefusesPagesThatItsOwnCannotBecome) {
  Probe worker(Role::kPrefill, 24);
  worker.tell(JobDelivered{DeliveryId{4}, job_for(pages(16), 0, 400)});
  ASSERT_EQ(worker.said<PrefillFailed>().size(), 1u);
  EXPECT_NE(worker.said<PrefillFailed>()[0].why.find("multiple"), std::string::npos);
  EXPECT_EQ(worker.wanted<AckJob>().size(), 1u);
  EXPECT_TRUE(worker.said<Claimed>().empty());
  EXPECT_EQ(worker.core.outstanding().jobs, 0);
}

TEST(PrefillWorker, TellsTheTraceWhatItDid) {
  Probe worker(Role::kPrefill, 16);
  worker.hear(kOther, job_for(pages(16), 0, 256));
  worker.hear(kOther, ClaimAnswer{kKey, ReservationId{9}, true});
  worker.tell(ExportProgress{.key = kKey, .tokens_ready = 256, .finished = true});
  worker.tell(SlabSent{.key = kKey, .index = 0, .sent = true});
  EXPECT_TRUE(worker.wanted<RecordSpan>().empty()) << "when all is over";
  worker.tell(SlabSent{.key = kKey, .index = 1, .sent = true});
  const auto spans = worker.wanted<RecordSpan>();
  ASSERT_EQ(spans.size(), 4u);
  EXPECT_EQ(spans[0].name, "prefill job");
  EXPECT_EQ(spans[0].parent, kTrace);
  EXPECT_EQ(spans[1].name, "compute prompt");
  EXPECT_EQ(spans[2].name, "send slab");
  EXPECT_EQ(spans[2].parent.substr(0, 36), std::string(kTrace).substr(0, 36));
  EXPECT_EQ(spans[2].parent, spans[3].parent);
  EXPECT_NE(spans[2].id, spans[3].id);
  EXPECT_LT(spans[2].begin, spans[2].end);
}

Generate generate(PrefillPlace place) {
  Generate message{.key = kKey, .prefill = place, .prefill_hint = kOther, .trace = kTrace};
  message.request.prompt.assign(400, 5);
  return message;
}

GenerationEvent last_event() {
  GenerationEvent event;
  event.finish = FinishReason::kStop;
  event.done = true;
  return event;
}

// Up to the pages on their way.
void go_to_claim(Probe& worker, int64_t end_token) {
  worker.hear(kRouter, generate(PrefillPlace::kElsewhere));
  worker.tell(CacheLooked{kKey, 0});
  worker.tell(SpaceReserved{kKey, ReservationId{9}, "there"});
  worker.hear(kOther, Claimed{kKey, ReservationId{9}, end_token});
}

TEST(DecodeWorker, TakesPagesAsFarAsTheyReachAndComputesTheRest) {
  Probe worker(Role::kDecode, 16);
  go_to_claim(worker, 320);
  ASSERT_EQ(worker.said<ClaimAnswer>().size(), 1u);
  EXPECT_TRUE(worker.said<ClaimAnswer>()[0].accepted);
  for (uint32_t i = 0; i < 3; ++i) {
    const int64_t first = 128 * i;
    worker.hear(kOther, SlabPosted{.key = kKey,
                            .reservation = ReservationId{9},
                            .index = i,
                            .first_token = first,
                            .num_tokens = std::min<int64_t>(128, 320 - first)});
    ASSERT_EQ(worker.wanted<ImportSlab>().size(), 1u);
    EXPECT_EQ(worker.wanted<ImportSlab>()[0].end_token, 320);
    worker.tell(SlabImported{kKey, ReservationId{9}, i, true, ""});
  }
  worker.hear(
      kOther, PrefillDone{.key = kKey, .reservation = ReservationId{9}, .end_token = 320, .num_slabs = 3});
  EXPECT_EQ(worker.wanted<EngineSubmit>().size(), 1u);
  worker.tell(EngineEvent{kKey, last_event()});
  EXPECT_EQ(worker.said<Tokens>().at(0).waterfall.remote_tokens, 320);
  EXPECT_EQ(worker.said<Tokens>()[0].waterfall.slabs.size(), 3u);
  std::map<std::string, int> spans;
  for (const RecordSpan& span : worker.wanted<RecordSpan>()) ++spans[span.name];
  EXPECT_EQ(spans, (std::map<std::string, int>{{"answer", 1}, {"wait for a prefill worker", 1},
                       {"receive pages", 1}, {"generate", 1}, {"import slab", 3}}));
}

TEST(DecodeWorker, RefusesAClaimThatReachesTooFarOrEndsWithinAPage) {
  for (const int64_t end : {416, 330}) {
    Probe worker(Role::kDecode, 16);
    go_to_claim(worker, end);
    EXPECT_FALSE(worker.said<ClaimAnswer>().at(0).accepted) << end;
  }
}

TEST(DecodeWorker, WithoutATraceRecordsNothing) {
  Probe worker(Role::kDecode, 16);
  Generate silent = generate(PrefillPlace::kHere);
  silent.trace.clear();
  worker.hear(kRouter, silent);
  worker.tell(EngineEvent{kKey, last_event()});
  EXPECT_TRUE(worker.wanted<RecordSpan>().empty());
}

TEST(DecodeWorker, PausesRequestsOfARouterThatDoesNotKeepUp) {
  Probe worker(Role::kDecode, 16);
  worker.hear(kRouter, generate(PrefillPlace::kHere));
  worker.tell(PeerPressed{kRouter, true});
  ASSERT_EQ(worker.wanted<EnginePause>().size(), 1u);
  EXPECT_TRUE(worker.wanted<EnginePause>()[0].paused);
  worker.hear(kRouter, Pause{kKey, true});  // its client is slow besides
  EXPECT_TRUE(worker.wanted<EnginePause>().empty());
  worker.tell(PeerPressed{kRouter, false});
  EXPECT_TRUE(worker.wanted<EnginePause>().empty()) << "the client has not read yet";
  worker.hear(kRouter, Pause{kKey, false});
  ASSERT_EQ(worker.wanted<EnginePause>().size(), 1u);
  EXPECT_FALSE(worker.wanted<EnginePause>()[0].paused);
}

}  // namespace
}  // namespace cheetah::cluster
