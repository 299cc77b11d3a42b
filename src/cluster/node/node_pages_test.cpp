// SPDX-License-Identifier: MIT
// Workers that keep their pages differently: what can become the other's does so on the way, and the tokens
// are those that the decode worker alone would give.
#include "cluster/node/node_fixture.h"
#include "cluster/transfer/kv_page_layout.h"

namespace cheetah::cluster {
namespace {

using Tokens = std::map<int, std::vector<int32_t>>;  // by choice

EngineConfig engine_with(DType kv_dtype, int64_t page_tokens) {
  EngineConfig config = small_engine();
  config.kv_dtype = kv_dtype;
  config.page_tokens = page_tokens;
  return config;
}

// Answers of a cluster, and how many tokens of its prompts came from elsewhere.
struct Asked {
  std::vector<Tokens> tokens;
  int64_t remote_tokens = 0;
};

constexpr int64_t kPrompts[] = {17, 100, 300, 333, 600};

Asked ask_all(OneProcess& cluster) {
  Asked asked;
  for (const int64_t prompt : kPrompts) {
    Answer answer;
    cluster.router->backend().submit(request_of(static_cast<uint64_t>(prompt), prompt), answer.sink());
    const Received& received = answer.wait();
    EXPECT_EQ(received.error, "");
    asked.tokens.push_back(tokens_of(received));
    if (answer.times()) asked.remote_tokens += answer.times()->remote_tokens;
  }
  return asked;
}

std::vector<Tokens> alone(const EngineConfig& config) {
  Engine engine(small_model(), config);
  std::vector<Tokens> tokens;
  for (const int64_t prompt : kPrompts)
    tokens.push_back(ask(engine, request_of(static_cast<uint64_t>(prompt), prompt)));
  return tokens;
}

TEST(OtherPages, OfAnyPageSizeGiveTheTokensOfOneEngine) {
  for (const auto& [prefill, decode] : {std::pair{64, 16}, std::pair{16, 64}}) {
    const EngineConfig here = engine_with(DType::kF16, decode);
    OneProcess cluster(
        {.policy = always_remote(), .prefill = engine_with(DType::kF16, prefill), .decode = here});
    const Asked asked = ask_all(cluster);
    EXPECT_EQ(asked.tokens, alone(here)) << prefill << " to " << decode;
    EXPECT_GT(asked.remote_tokens, 900) << cluster.told();
    EXPECT_TRUE(cluster.counts_at_least(Counter::kSlabsImported, 8)) << cluster.told();
    EXPECT_TRUE(cluster.becomes([&] { return cluster.workers[0]->status().pages.slabs_changed >= 8; }));
    EXPECT_TRUE(cluster.becomes_empty()) << cluster.told();
  }
}

// Types lose digits, so the tokens may differ from those of one engine; pages are taken and answers come.
TEST(OtherPages, OfAnyTypeAreTaken) {
  for (const auto& [prefill, decode] : {std::pair{DType::kBF16, DType::kF32},
           std::pair{DType::kF16, DType::kI8}, std::pair{DType::kF8E4M3, DType::kF16}}) {
    OneProcess cluster(
        {.policy = always_remote(), .prefill = engine_with(prefill, 32), .decode = engine_with(decode, 16)});
    const Asked asked = ask_all(cluster);
    for (const Tokens& choices : asked.tokens) EXPECT_EQ(choices.at(0).size(), 16u);
    EXPECT_GT(asked.remote_tokens, 900) << cluster.told();
    EXPECT_EQ(cluster.counted(Counter::kSlabsRefused), 0) << cluster.told();
  }
}

TEST(OtherPages, TravelInTheTypeThatTheReceiverAsksFor) {
  const EngineConfig engine = engine_with(DType::kF32, 16);
  OneProcess cluster(
      {.policy = always_remote(), .prefill = engine, .decode = engine, .transfer_dtype = DType::kF16});
  const Asked asked = ask_all(cluster);
  EXPECT_GT(asked.remote_tokens, 900) << cluster.told();
  EXPECT_TRUE(cluster.counts_at_least(Counter::kSlabsImported, 8)) << cluster.told();
  KvAdapter::Numbers sent;
  EXPECT_TRUE(cluster.becomes([&] {
    sent = cluster.workers[0]->status().pages;
    return sent.slabs_sent >= 8 && sent.slabs_changed == sent.slabs_sent;
  })) << cluster.told();
  const int64_t whole = kv_bytes_per_token(small_model()->traits(), DType::kF32) * asked.remote_tokens;
  EXPECT_LT(sent.bytes_sent, whole * 6 / 10) << "half of the bytes, and headers";
  EXPECT_GT(sent.bytes_per_s, 0);
}

// 24 and 16 tokens: neither is a multiple of the other.
TEST(OtherPages, ThatCannotBecomeOursAreRefusedAndThePromptIsComputedHere) {
  const EngineConfig here = engine_with(DType::kF16, 16);
  OneProcess cluster({.policy = always_remote(), .prefill = engine_with(DType::kF16, 24), .decode = here});
  const Asked asked = ask_all(cluster);
  EXPECT_EQ(asked.tokens, alone(here));
  EXPECT_EQ(asked.remote_tokens, 0);
}

TEST(OtherPages, OfEveryFamilyCanBeRead) {
  for (const char* path : {"models/cub-1m", "tests/models/gemma3_text", "tests/models/gpt_oss",
           "tests/models/qwen2-window", "tests/models/deepseek_v3"})
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
      const auto model = load_quietly(path);
      EngineConfig config = engine_with(dtype, 16);
      config.max_context = 0;
      Engine engine(model, config);
      const KvDescriptor kv = describe_pages(engine.kv_format(), "m");
      EXPECT_EQ(transfer::KvPageLayout::why_not(kv), "") << path;
      EXPECT_EQ(transfer::KvPageLayout(kv).place_bytes(), kv.page_bytes) << path;
    }
}

// Chunks of 256 tokens: all slabs but those of the last chunk are posted while the next chunk is computed.
// Counted, not timed: what one chunk finished is posted before the core hears of the next.
TEST(LongPrompts, PagesTravelWhileTheRestIsComputed) {
  const std::shared_ptr<const Model> model = Model::random("random:tiny-128k", DType::kF16);
  EngineConfig engine = small_engine();
  engine.max_context = 4096;
  engine.max_batch_tokens = 256;
  engine.kv_bytes = 40 << 20;
  OneProcess cluster({.policy = always_remote(), .prefill = engine, .decode = engine, .model = model});
  Answer answer;
  cluster.router->backend().submit(request_of(3, 1300, 2), answer.sink());
  EXPECT_EQ(answer.wait().error, "");
  ASSERT_TRUE(answer.times());
  const ClusterTimes& times = *answer.times();
  EXPECT_EQ(times.remote_tokens, 1296) << cluster.told();  // the last page is computed where it is decoded
  ASSERT_EQ(times.slabs.size(), 11u);
  EXPECT_GE(times.slabs_hidden, 8);
  int64_t before = 0;
  for (const SlabOnItsWay& slab : times.slabs) {
    EXPECT_EQ(slab.first_token, before);
    before += slab.num_tokens;
    EXPECT_LE(slab.landed, slab.imported);
    EXPECT_GT(slab.imported.count(), 0);
  }
  EXPECT_EQ(before, 1296);
}

}  // namespace
}  // namespace cheetah::cluster
