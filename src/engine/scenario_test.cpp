// SPDX-License-Identifier: MIT
#include "engine/scenario.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/constrained_scenario.h"
#include "engine/core_fixture.h"
#include "engine/speculation_scenario.h"

namespace cheetah {
namespace {

EngineConfig scenario_config() {
  EngineConfig config = small_config(200, *small_model());
  config.max_context = 400;
  return config;
}

TEST(Scenario, StreamsDeliverEveryToken) {
  Engine engine(small_model(), scenario_config());
  const StreamsResult result = run_streams(engine, {.streams = 5, .prompt_tokens = 12, .new_tokens = 9});
  ASSERT_EQ(result.traces.size(), 5u);
  for (const RequestTrace& trace : result.traces) {
    EXPECT_EQ(trace.token_s.size(), 9u);
    EXPECT_GT(trace.ttft_s(), 0);
    EXPECT_TRUE(std::ranges::is_sorted(trace.token_s));
  }
  EXPECT_GT(result.tokens_per_s, 0);
  EXPECT_EQ(engine.stats().generated_tokens, 45u);
}

TEST(Scenario, ALongPromptIsMeasuredBetweenTheTokensOfTheOthers) {
  Engine engine(small_model(), scenario_config());
  const LongPromptResult result = run_long_prompt(
      engine, {.streams = 3, .prompt_tokens = 8, .long_prompt_tokens = 300, .calm_tokens = 5});
  EXPECT_GE(result.calm_gaps_s.size(), 3u * 4u);
  EXPECT_GT(result.long_ttft_s, 0);
  EXPECT_GT(result.steps, 2u) << "64 tokens per step at most";
  EXPECT_FALSE(result.disturbed_gaps_s.empty());
  EXPECT_EQ(engine.stats().running, 0);
}

TEST(Scenario, PrefixHeavyLoadFindsItsPrefixCached) {
  EngineConfig config = scenario_config();
  for (const bool cached : {true, false}) {
    config.prefix_cache = cached;
    Engine engine(small_model(), config);
    const auto traces = run_prefix_heavy(
        engine, {.requests = 6, .concurrency = 2, .shared_tokens = 64, .own_tokens = 7, .new_tokens = 2});
    ASSERT_EQ(traces.size(), 6u);
    for (size_t i = 2; i < traces.size(); ++i) EXPECT_EQ(traces[i].cached_tokens, cached ? 64 : 0);
  }
}

TEST(Scenario, GenerationsUnderEverySchemaAreValid) {
  EngineConfig config = scenario_config();
  config.max_context = 800;
  config.kv_bytes = 0;
  config.max_batch_tokens = 512;
  Engine engine(small_model(), config);
  const ConstrainedResult result = run_constrained(engine, {.generations = 100, .seed = 3});
  EXPECT_EQ(result.num_schemas, 20);
  EXPECT_EQ(result.valid, 100) << result.first_failure;
  EXPECT_GT(result.mask_seconds, 0);
  EXPECT_GT(result.step_seconds, result.mask_seconds);
}

TEST(Scenario, GapsAreCountedWhereTheyEnd) {
  std::vector<RequestTrace> traces(2);
  traces[0].token_s = {1, 2, 4, 7};
  traces[1].token_s = {3};
  EXPECT_EQ(token_gaps(traces, 2, 7), (std::vector<double>{1, 2}));
}

TEST(Scenario, DraftsChangeNoTokenAndFollowAPrediction) {
  EngineConfig config = scenario_config();
  Engine plain(small_model(), config);
  config.max_draft = 8;
  Engine drafting(small_model(), config);
  for (const DraftText text : {DraftText::kStories, DraftText::kCopying, DraftText::kNoise}) {
    const SpeculationPlan plan{.text = text, .streams = 2, .new_tokens = 60};
    const SpeculationResult slow = run_speculation(plain, plan);
    const SpeculationResult fast = run_speculation(drafting, plan, slow.tokens);
    EXPECT_EQ(slow.drafts.tokens, 0u);
    EXPECT_EQ(fast.tokens, slow.tokens) << name_of(text);
    ASSERT_EQ(fast.tokens.size(), 2u);
    EXPECT_EQ(fast.tokens[0].size(), 60u);
  }
}

}  // namespace
}  // namespace cheetah
