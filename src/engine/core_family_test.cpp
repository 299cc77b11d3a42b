// SPDX-License-Identifier: MIT
// Every kind of cache a family brings through the engine: latent rows, windows, sinks, long factors.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/core_fixture.h"
#include "model/allocation_count.h"

namespace cheetah {
namespace {

// Greedy tokens of one sequence alone.
std::vector<int32_t> greedy_alone(
    const Model& model, const EngineConfig& config, std::vector<int32_t> tokens, int64_t count) {
  ThreadPool threads({.num_threads = 2});
  CpuRunner runner(model, CpuContext{threads, config.precision});
  KvPool pool(model.traits(), config.kv_dtype, 64, 8);
  CachedSequence sequence(model, runner, pool);
  std::vector<int32_t> result;
  auto logits = sequence.extend_to(tokens, [] { return true; });
  while (std::ssize(result) < count) {
    result.push_back(argmax(logits));
    if (std::ssize(result) < count) logits = sequence.append(result.back());
  }
  return result;
}

class CoreFamilyTest : public testing::TestWithParam<const char*> {};

TEST_P(CoreFamilyTest, BatchesOfShortAndLongRequestsEqualOneByOneGeneration) {
  const auto model = load_quietly(std::string("tests/models/") + GetParam());
  for (const Preemption preemption : {Preemption::kRecompute, Preemption::kSwap}) {
    EngineConfig config = small_config(20, *model);  // for about two of the four
    config.max_context = 100;
    config.max_batch_tokens = 24;
    config.preemption = preemption;
    CoreDriver driver(config, model);
    std::vector<std::vector<int32_t>> prompts;
    std::vector<RequestId> ids;
    for (const int64_t length : {3, 28, 50, 28, 60}) {  // phi3-longrope turns at 32
      prompts.emplace_back();
      for (int64_t i = 0; i < length; ++i)
        prompts.back().push_back(static_cast<int32_t>((7 + 3 * i) % model->traits().vocab));
      GenerationRequest request;
      request.prompt = prompts.back();
      request.max_tokens = 16;
      request.ignore_eos = true;
      request.n = request.best_of = length == 50 ? 2 : 1;
      ids.push_back(driver.submit(std::move(request)));
      driver.step();
    }
    driver.run();
    for (size_t i = 0; i < ids.size(); ++i)
      for (const auto& [choice, result] : driver.received[ids[i]].choices)
        EXPECT_EQ(result.tokens, greedy_alone(*model, config, prompts[i], 16)) << "request " << i;
    const EngineStats stats = driver.core.stats();
    EXPECT_EQ(stats.pages_free + stats.pages_cached, stats.pages_total);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, CoreFamilyTest,
    testing::Values("llama", "mistral", "phi3-longrope", "gemma2", "gemma3_text", "gpt_oss", "qwen2-window",
        "deepseek_v3", "qwen3_moe", "gpt2", "glm4_moe", "cohere2", "olmoe", "smollm3", "starcoder2",
        "gpt_neox"),
    [](const auto& family) {
      std::string name = family.param;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

TEST(EngineCore, GivesBackPagesThatNoWindowReaches) {
  const auto model = load_quietly("tests/models/mistral");  // every layer sees 16 tokens
  EngineConfig config = small_config(20, *model);
  for (const bool cached : {false, true}) {
    config.prefix_cache = cached;
    CoreDriver driver(config, model);
    GenerationRequest request;
    request.prompt.assign(40, 5);
    request.max_tokens = 100;
    request.ignore_eos = true;
    const RequestId id = driver.submit(request);
    while (driver.received[id].choices[0].tokens.size() < 80) driver.step();
    // 120 tokens: the window and the page being written, and what the cache has of the prompt.
    EXPECT_GE(driver.core.stats().pages_free, 20 - 4 - (cached ? 5 : 0));
    driver.run();
  }
}

TEST(EngineCore, WindowedLayersGiveBackPagesWhileTheOthersKeepTheirs) {
  const auto model = load_quietly("tests/models/gemma3_text");  // of 4 layers 3 see 16 tokens
  EngineConfig config = small_config(20, *model);               // 80 pages, one layer each
  for (const bool cached : {false, true}) {
    config.prefix_cache = cached;
    CoreDriver driver(config, model);
    GenerationRequest request;
    request.prompt.assign(40, 5);
    request.max_tokens = 100;
    request.ignore_eos = true;
    const RequestId id = driver.submit(request);
    while (driver.received[id].choices[0].tokens.size() < 80) driver.step();
    const EngineStats stats = driver.core.stats();
    EXPECT_EQ(stats.pages_total, 80);
    // 120 tokens: 15 or 16 pages of the full layer, and of each other the window and the page being written.
    EXPECT_LE(stats.pages_total - stats.pages_free - stats.pages_cached, 16 + 3 * 4);
    EXPECT_LE(stats.fragmentation, 0.2);
    driver.run();
  }
}

// Long texts that share beginnings, of which the cache holds only a few, in chunks.
class WindowEqualityTest : public testing::TestWithParam<std::tuple<const char*, Preemption>> {};

TEST_P(WindowEqualityTest, RequestsThatShareBeginningsEqualOneByOneGeneration) {
  const auto model = load_quietly(std::string("tests/models/") + std::get<0>(GetParam()));
  EngineConfig config = small_config(14, *model);
  config.max_context = 100;
  config.kv_bytes = 0;
  for (const MemoryRow& row : plan_memory(model->traits(), 0, config, int64_t{8} << 30).rows)
    if (row.name == "one context") config.kv_bytes = row.bytes * 5 / 4;  // some will have to give way
  config.max_batch_tokens = 40;
  config.preemption = std::get<1>(GetParam());
  CoreDriver driver(config, model);
  std::vector<GenerationRequest> requests;
  Philox random(5);
  for (int i = 0; i < 40; ++i) {
    GenerationRequest request;
    const auto text = random.next_u32() % 3, shared = 10 + random.next_u32() % 50,
               own = 1 + random.next_u32() % 20;
    for (uint32_t k = 0; k < shared + own; ++k)
      request.prompt.push_back(static_cast<int32_t>(
          (7 + 3 * k * (text + 1) + (k < shared ? 0 : i)) % static_cast<uint32_t>(model->traits().vocab)));
    request.max_tokens = 1 + random.next_u32() % 20;
    request.ignore_eos = true;
    request.n = request.best_of = i % 6 == 0 ? 2 : 1;
    requests.push_back(std::move(request));
  }
  std::vector<RequestId> ids;
  for (const GenerationRequest& request : requests) {
    ids.push_back(driver.submit(request));
    driver.step();
    driver.step();
  }
  driver.run();
  const EngineStats stats = driver.core.stats();
  EXPECT_GT(stats.prefix_hits, 0u);
  for (size_t i = 0; i < ids.size(); ++i)
    for (const auto& [choice, result] : driver.received[ids[i]].choices)
      ASSERT_EQ(result.tokens, greedy_alone(*model, config, requests[i].prompt, requests[i].max_tokens))
          << "request " << i;
  EXPECT_EQ(stats.pages_free + stats.pages_cached, stats.pages_total);
}

INSTANTIATE_TEST_SUITE_P(Models, WindowEqualityTest,
    testing::Combine(testing::Values("gemma2", "gemma3_text", "gpt_oss", "mistral", "cohere2"),
        testing::Values(Preemption::kRecompute, Preemption::kSwap)));

TEST(EngineCore, AStepThatThrowsEndsOnlyTheRequestToBlame) {
  const auto model = load_quietly("tests/models/gpt2");  // has no place for a token beyond its positions
  const int64_t positions = model->traits().max_positions;
  EngineConfig config = small_config(100, *model);
  config.max_batch_tokens = 4 * positions;
  MemoryPlan plan = plan_memory(model->traits(), 0, config, int64_t{8} << 30);
  plan.config.max_context = 4 * positions;
  CoreDriver driver(plan, model);
  std::vector<RequestId> ids;
  for (const int64_t length : {int64_t{9}, positions + 5, int64_t{20}}) {
    GenerationRequest request;
    request.prompt.assign(static_cast<size_t>(length), 3);
    request.max_tokens = 6;
    request.ignore_eos = true;
    ids.push_back(driver.submit(std::move(request)));
  }
  driver.run();
  EXPECT_EQ(driver.received[ids[0]].choices.at(0).tokens.size(), 6u);
  EXPECT_EQ(driver.received[ids[1]].error_kind, ErrorKind::kInternal);
  EXPECT_NE(driver.received[ids[1]].error.find("positions"), std::string::npos);
  EXPECT_EQ(driver.received[ids[2]].choices.at(0).tokens.size(), 6u);
  const EngineStats stats = driver.core.stats();
  EXPECT_EQ(stats.pages_free + stats.pages_cached, stats.pages_total);
}

TEST(EngineCore, AWarmDecodeStepAllocatesOnlyItsEvents) {
  EngineConfig config = small_config(64, *small_model());
  const TickingTime time;
  SilentLog log;
  EngineCore core(
      small_model(), plan_memory(small_model()->traits(), 0, config, int64_t{8} << 30), time, log);
  constexpr uint64_t kRequests = 4;
  int64_t events = 0;
  for (uint64_t i = 0; i < kRequests; ++i) {
    GenerationRequest request;
    request.id = RequestId{i};
    request.prompt = random_prompt(10, i);
    request.max_tokens = 100;
    request.ignore_eos = true;
    core.submit(
        std::move(request), [&](GenerationEvent&&) { ++events; }, EngineTime{});
  }
  EngineTime now{};
  const auto step = [&] {
    core.step(now += std::chrono::milliseconds(1));
    core.deliver(now);
  };
  for (int i = 0; i < 40; ++i) step();
  const int64_t before = allocation_count(), events_before = events;
  for (int i = 0; i < 20; ++i) step();
  const int64_t sent = events - events_before;
  EXPECT_EQ(sent, 20 * static_cast<int64_t>(kRequests));
  EXPECT_LE(allocation_count() - before, 2 * sent) << "an event's token list, and rarely a growing buffer";
}

}  // namespace
}  // namespace cheetah
