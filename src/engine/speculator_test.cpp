// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "engine/ahead_driver.h"
#include "engine/mixed_requests.h"

namespace cheetah {
namespace {

EngineConfig drafting(EngineConfig config, int64_t max_draft = 6) {
  config.max_draft = max_draft;
  return config;
}

// Texts that repeat themselves, so that there is something to look up, and are drafted from in vain as well.
GenerationRequest repeating_request(int i, bool with_grammars) {
  GenerationRequest request = request_number(i, with_grammars);
  if (i % 3 == 1) {
    const std::vector<int32_t> once = random_prompt(7 + i % 5, static_cast<uint64_t>(i));
    request.prompt.clear();
    for (int times = 0; times < 4; ++times)
      request.prompt.insert(request.prompt.end(), once.begin(), once.end());
  }
  request.max_tokens += 20;
  return request;
}

size_t num_open(const CoreDriver& driver) {
  return static_cast<size_t>(
      std::ranges::count_if(driver.received, [](const auto& each) { return !each.second.done; }));
}

// Preemption, pages, the runner takes two steps at once.
class SpeculationTest : public testing::TestWithParam<std::tuple<Preemption, int64_t, bool>> {};

TEST_P(SpeculationTest, MixedRequestsGetTheTokensOfOneStepAtATime) {
  const auto [preemption, num_pages, two_steps] = GetParam();
  EngineConfig config = small_config(num_pages, *small_model());
  config.max_context = 120;
  config.preemption = preemption;
  CoreDriver plain(config);
  std::optional<AheadDriver> ahead;
  std::optional<CoreDriver> one;
  CoreDriver* const fast = two_steps ? &ahead.emplace(drafting(config)) : &one.emplace(drafting(config));
  constexpr int kRequests = 80;
  std::vector<RequestId> plain_ids, fast_ids;
  for (int i = 0; i < kRequests; ++i) {
    plain_ids.push_back(plain.submit(repeating_request(i, true)));
    fast_ids.push_back(fast->submit(repeating_request(i, true)));
    while (!fast->core.idle() && num_open(*fast) > static_cast<size_t>(i % 4)) fast->step();
  }
  plain.run();
  fast->run();
  for (size_t i = 0; i < plain_ids.size(); ++i)
    expect_equal(fast->received[fast_ids[i]], plain.received[plain_ids[i]], static_cast<int>(i));
  const DraftStats drafts = fast->core.stats().drafts;
  EXPECT_GT(drafts.accepted, 20u);
  EXPECT_GT(drafts.tokens, drafts.accepted) << "some are rejected";
  expect_no_page_leaked(*fast);
}

INSTANTIATE_TEST_SUITE_P(Loads, SpeculationTest,
    testing::Values(std::tuple(Preemption::kRecompute, 200, false),
        std::tuple(Preemption::kRecompute, 20, false), std::tuple(Preemption::kSwap, 20, false),
        std::tuple(Preemption::kRecompute, 200, true)));

TEST(Speculation, ATextThatRepeatsTakesFewSteps) {
  const EngineConfig config = small_config(64, *small_model());
  GenerationRequest request;
  request.prompt = random_prompt(12, 3);
  request.max_tokens = 200;
  request.ignore_eos = true;
  request.logit_bias = {{5, 100.f}};
  CoreDriver plain(config), fast(drafting(config, 8));
  EXPECT_EQ(fast.generate(request).choices.at(0).tokens, plain.generate(request).choices.at(0).tokens);
  EXPECT_EQ(plain.core.stats().steps, 200u);
  EXPECT_LT(fast.core.stats().steps, 40u);
  EXPECT_EQ(fast.core.stats().generated_tokens, 200u);
  EXPECT_NE(fast.explain_last(5).find("drafts"), std::string::npos);
}

// Every draw is by the token's own random number, so the distribution is the one without drafts, token by token.
TEST(Speculation, SampledTokensAreThoseWithoutDrafts) {
  const EngineConfig config = small_config(200, *small_model());
  CoreDriver plain(config), fast(drafting(config));
  for (int i = 0; i < 40; ++i) {
    GenerationRequest request = repeating_request(3 * i + 1, false);
    for (int32_t id = 20; id < 24 + i % 4; ++id)
      request.allowed_ids.push_back(id);  // few, so that much comes twice
    request.max_tokens = 60;
    request.sampling = {.temperature = 0.5f + 0.05f * static_cast<float>(i % 20),
        .top_k = i % 3 == 0 ? 3 : 0,
        .top_p = i % 4 == 0 ? 0.8f : 1.f,
        .min_p = i % 5 == 0 ? 0.05f : 0.f,
        .repetition_penalty = i % 6 == 0 ? 1.2f : 1.f,
        .presence_penalty = i % 7 == 0 ? 0.4f : 0.f};
    request.seed = static_cast<uint64_t>(i);
    request.top_logprobs = 2;
    expect_equal(fast.generate(request), plain.generate(request), i);
  }
  EXPECT_GT(fast.core.stats().drafts.accepted, 50u);
}

TEST(Speculation, APredictedAnswerTakesFewSteps) {
  const EngineConfig config = small_config(64, *small_model());
  GenerationRequest request;
  request.prompt = random_prompt(12, 3);
  request.max_tokens = 120;
  request.ignore_eos = true;
  request.sampling.temperature = 1.f;
  request.seed = 5;
  CoreDriver plain(config), fast(drafting(config, 8));
  const Received expected = plain.generate(request);
  request.prediction = expected.choices.at(0).tokens;
  const uint64_t before = fast.core.stats().steps;
  expect_equal(fast.generate(request), expected, 0);
  EXPECT_LT(fast.core.stats().steps - before, 40u) << "right from the first token";
  for (size_t i = 5; i < request.prediction.size(); i += 11) request.prediction[i] = 7;
  request.prediction.erase(request.prediction.begin() + 30, request.prediction.begin() + 36);
  expect_equal(fast.generate(request), expected, 1);
  request.prediction = random_prompt(500, 8);
  expect_equal(fast.generate(request), expected, 2);
}

TEST(Speculation, CancellationsWhileDraftsAreVerifiedLeakNothing) {
  AheadDriver driver(drafting(small_config(40, *small_model())));
  Philox random(5);
  std::vector<RequestId> ids;
  for (int i = 0; i < 120; ++i) {
    ids.push_back(driver.submit(repeating_request(i, true)));
    const uint32_t steps = random.next_u32() % 8;
    for (uint32_t k = 0; k < steps; ++k) driver.step();
    if (random.next_u32() % 2 == 0) driver.cancel(ids[random.next_u32() % ids.size()]);
  }
  driver.run();
  for (const RequestId id : ids) EXPECT_TRUE(driver.received[id].done);
  expect_no_page_leaked(driver);
}

TEST(Speculation, AStepThatFailsIsComputedOneByOneWithItsDrafts) {
  const EngineConfig config = small_config(64, *small_model());
  CoreDriver plain(config);
  AheadDriver fast(drafting(config));
  std::vector<RequestId> ids, expected;
  for (int i = 1; i < 8; i += 3) {
    expected.push_back(plain.submit(repeating_request(i, false)));
    ids.push_back(fast.submit(repeating_request(i, false)));
  }
  for (int failure = 0; failure < 10; ++failure) {
    fast.runner->fails_at = 3;
    for (int k = 0; k < 3; ++k) fast.step();
  }
  plain.run();
  fast.run();
  for (size_t i = 0; i < ids.size(); ++i)
    expect_equal(fast.received[ids[i]], plain.received[expected[i]], static_cast<int>(i));
  expect_no_page_leaked(fast);
}

TEST(Speculation, WindowsAndLatentAttentionVerifyTheSameTokens) {
  for (const char* name : {"gemma3_text", "gemma2", "deepseek_v3", "mixtral", "gpt_oss", "phi3-longrope"}) {
    const std::shared_ptr<const Model> model = load_quietly(std::string("tests/models/") + name);
    const EngineConfig config = small_config(200, *model);
    CoreDriver plain(config, model), fast(drafting(config), model);
    for (int i = 0; i < 4; ++i) {
      GenerationRequest request;
      for (int times = 0; times < 12; ++times)
        for (int token = 0; token < 5; ++token) request.prompt.push_back(3 + i + token);
      request.max_tokens = 60;
      request.ignore_eos = true;
      request.sampling.temperature = i % 2 ? 0.f : 0.3f;
      request.top_logprobs = 1;
      expect_equal(fast.generate(request), plain.generate(request), i);
    }
    EXPECT_GT(fast.core.stats().drafts.drafts, 0u) << name;
    expect_no_page_leaked(fast);
  }
}

}  // namespace
}  // namespace cheetah
