// Every kind of cache a family brings through the engine: latent rows, windows, sinks, long factors.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/core_fixture.h"
#include "model/allocation_count.h"

namespace cheetah {
namespace {

// Greedy tokens of one sequence alone.
std::vector<int32_t> greedy_alone(const Model& model, const EngineConfig& config, std::vector<int32_t> tokens,
                                  int64_t count) {
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
                         testing::Values("llama", "mistral", "phi3-longrope", "gemma2", "gpt_oss",
                                         "deepseek_v3", "qwen3_moe", "gpt2"),
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
  EngineCore core(small_model(), plan_memory(small_model()->traits(), 0, config, int64_t{8} << 30),
                  EngineTime{});
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
