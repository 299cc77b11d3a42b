// SPDX-License-Identifier: MIT
#include "engine/core.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <regex>

#include "engine/core_fixture.h"
#include "engine/grammar/model_vocabulary.h"

namespace cheetah {
namespace {

GenerationRequest request_of(std::vector<int32_t> prompt, int64_t max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.ignore_eos = true;
  return request;
}

TEST(EngineCore, GeneratesWhatThePlainLoopDoes) {
  const EngineConfig config = small_config(64, *small_model());
  CoreDriver driver(config);
  const GenerationRequest request = request_of(random_prompt(20, 1), 30);
  const Received got = driver.generate(request);
  const GenerationResult expected = OneByOne(config).generate(request);
  EXPECT_EQ(got.choices.at(0).tokens, expected.tokens);
  EXPECT_EQ(got.choices.at(0).text, expected.text);
  EXPECT_EQ(got.choices.at(0).finish, FinishReason::kLength);
  EXPECT_TRUE(got.done);
}

// Prompts that share beginnings, of many lengths, some with several choices, all at once.
std::vector<GenerationRequest> mixed_requests(int count) {
  std::vector<GenerationRequest> requests;
  Philox random(11);
  for (int i = 0; i < count; ++i) {
    std::vector<int32_t> prompt = random_prompt(10 + random.next_u32() % 40, random.next_u32() % 4);
    const std::vector<int32_t> own = random_prompt(1 + random.next_u32() % 60, 100 + random.next_u32() % 60);
    prompt.insert(prompt.end(), own.begin(), own.end());
    GenerationRequest request = request_of(std::move(prompt), 1 + random.next_u32() % 24);
    if (i % 7 == 0) request.n = request.best_of = 2 + i % 3;
    if (i % 5 == 0) request.ignore_eos = false;
    request.priority = i % 3;
    requests.push_back(std::move(request));
  }
  return requests;
}

class EqualityTest : public testing::TestWithParam<std::tuple<Preemption, BatchPolicy, Precision>> {};

TEST_P(EqualityTest, TwoHundredMixedRequestsGetTheTokensOfOneByOneGeneration) {
  EngineConfig config = small_config(24, *small_model());  // one long request alone takes most of it
  config.max_context = 150;
  std::tie(config.preemption, config.policy, config.precision) = GetParam();
  CoreDriver driver(config);
  OneByOne alone(config);
  const auto requests = mixed_requests(200);
  std::vector<RequestId> ids;
  for (const GenerationRequest& request : requests) {
    ids.push_back(driver.submit(request));
    driver.step();
  }
  driver.run();
  const EngineStats stats = driver.core.stats();
  EXPECT_TRUE(config.policy != BatchPolicy::kContinuous || stats.preemptions > 0);
  EXPECT_GT(stats.prefix_hits, 0u);
  for (size_t i = 0; i < requests.size(); ++i) {
    const Received& got = driver.received[ids[i]];
    const std::vector<int32_t> expected = alone.generate(requests[i]).tokens;
    ASSERT_TRUE(got.done);
    ASSERT_EQ(static_cast<int>(got.choices.size()), requests[i].n);
    for (const auto& [choice, result] : got.choices)
      ASSERT_EQ(result.tokens, expected) << "request " << i << " choice " << choice;
  }
  EXPECT_EQ(stats.pages_free + stats.pages_cached, stats.pages_total);
}

INSTANTIATE_TEST_SUITE_P(Ways, EqualityTest,
    testing::Values(std::tuple(Preemption::kRecompute, BatchPolicy::kContinuous, Precision::kExact),
        std::tuple(Preemption::kSwap, BatchPolicy::kContinuous, Precision::kNative),
        std::tuple(Preemption::kRecompute, BatchPolicy::kStatic, Precision::kNative)));

TEST(EngineCore, LogprobsAreTheSameBytesAtEveryBatchSizeAndOrderOfArrival) {
  EngineConfig config = small_config(200, *small_model());
  config.precision = Precision::kNative;
  config.kv_dtype = DType::kF16;
  std::vector<GenerationRequest> requests = mixed_requests(24);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].top_logprobs = 2;
    requests[i].sampling.temperature = i % 2 ? 0.8f : 0.f;
    requests[i].seed = i;
  }
  struct Way {
    int sequences, tokens;
    bool reversed;
    int64_t pages = 200;
    Preemption preemption = Preemption::kRecompute;
  };
  std::vector<std::map<int, std::vector<float>>> first;
  for (const auto& [sequences, tokens, reversed, pages, preemption] : {Way{1, 16, false}, Way{4, 64, true},
           Way{16, 300, false}, Way{8, 24, true, 26}, Way{8, 40, false, 26, Preemption::kSwap}}) {
    config.max_sequences = std::max(sequences, 4);
    config.max_batch_tokens = tokens;
    config.max_context = 150;
    config.kv_bytes = pages * 8 * kv_bytes_per_token(small_model()->traits(), config.kv_dtype);
    config.preemption = preemption;
    CoreDriver driver(config);
    std::vector<RequestId> ids(requests.size());
    for (size_t k = 0; k < requests.size(); ++k) {
      const size_t i = reversed ? requests.size() - 1 - k : k;
      ids[i] = driver.submit(requests[i]);
      if (sequences == 1) driver.run();
    }
    driver.run();
    std::vector<std::map<int, std::vector<float>>> all;
    for (const RequestId id : ids) {
      all.emplace_back();
      for (const auto& [choice, result] : driver.received[id].choices) all.back()[choice] = result.logprobs;
    }
    if (first.empty()) first = all;
    ASSERT_EQ(all, first) << sequences << " sequences, " << pages << " pages";
    EXPECT_GT(driver.core.stats().prefix_hits, 0u);
    EXPECT_EQ(driver.core.stats().preemptions > 0, pages == 26);
  }
}

TEST(EngineCore, AnEightBitCacheGivesTheSameTokensHoweverTheyAreBatched) {
  for (const DType dtype : {DType::kI8, DType::kF8E4M3}) {
    EngineConfig config = small_config(24, *small_model());
    config.kv_dtype = dtype;
    config.kv_bytes = 24 * 8 * kv_bytes_per_token(small_model()->traits(), dtype);
    config.preemption = Preemption::kSwap;
    CoreDriver driver(config);
    OneByOne alone(config);
    const auto requests = mixed_requests(30);
    std::vector<RequestId> ids;
    for (const GenerationRequest& request : requests) ids.push_back(driver.submit(request));
    driver.run();
    for (size_t i = 0; i < requests.size(); ++i)
      ASSERT_EQ(driver.received[ids[i]].choices.at(0).tokens, alone.generate(requests[i]).tokens);
  }
}

TEST(EngineCore, ASecondRequestWaitsForTheFirstOnesPages) {
  EngineConfig config = small_config(64, *small_model());
  config.max_batch_tokens = 16;
  CoreDriver driver(config);
  const auto prompt = random_prompt(100, 5);
  const RequestId first = driver.submit(request_of(prompt, 4));
  const RequestId second = driver.submit(request_of(prompt, 4));
  driver.run();
  EXPECT_EQ(driver.received[first].cached_tokens, 0);
  EXPECT_EQ(driver.received[second].cached_tokens, 96);
  EXPECT_EQ(driver.received[first].choices[0].tokens, driver.received[second].choices[0].tokens);
  EXPECT_NE(driver.explain_last(100).find("another sequence is computing its beginning"), std::string::npos);
}

TEST(EngineCore, ItsLogHoldsEachChunkOfARequestsPrompt) {
  EngineConfig config = small_config(64, *small_model());
  config.max_batch_tokens = 32;
  CoreDriver driver(config);
  const RequestId id = driver.submit(request_of(random_prompt(80, 5), 3));
  driver.run();
  int64_t computed = 0, chunks = 0;
  std::vector<DecisionKind> kinds;
  for (const Decision& decision : driver.core.decisions().of(id)) {
    EXPECT_EQ(decision.request, id);
    kinds.push_back(decision.kind);
    computed += decision.chunk;
    chunks += decision.kind == DecisionKind::kPrefilled;
    EXPECT_LE(decision.step_tokens, 32);
  }
  EXPECT_EQ(computed, 80);
  EXPECT_EQ(chunks, 3);
  EXPECT_EQ(kinds.front(), DecisionKind::kArrived);
  EXPECT_EQ(kinds.back(), DecisionKind::kFinished);
  EXPECT_TRUE(driver.core.decisions().of(RequestId{4711}).empty());
}

TEST(EngineCore, TenantsDoNotShareTheirPrefixes) {
  CoreDriver driver(small_config(64, *small_model()));
  GenerationRequest request = request_of(random_prompt(40, 5), 2);
  request.cache_salt = "a";
  EXPECT_EQ(driver.generate(request).cached_tokens, 0);
  EXPECT_EQ(driver.generate(request).cached_tokens, 32);
  request.cache_salt = "b";
  EXPECT_EQ(driver.generate(request).cached_tokens, 0);
}

TEST(EngineCore, ChoicesShareThePromptAndGoTheirOwnWays) {
  CoreDriver driver(small_config(64, *small_model()));
  GenerationRequest request = request_of(random_prompt(21, 9), 12);
  request.n = request.best_of = 3;
  request.sampling.temperature = 1.5f;
  request.seed = 4;
  const Received together = driver.generate(request);
  ASSERT_EQ(together.choices.size(), 3u);
  EXPECT_NE(together.choices.at(0).tokens, together.choices.at(1).tokens);
  EXPECT_EQ(driver.core.stats().prompt_tokens, 21u) << "the prompt is computed once";
  request.n = request.best_of = 1;
  EXPECT_EQ(driver.generate(request).choices.at(0).tokens, together.choices.at(0).tokens);
}

TEST(EngineCore, BestOfReturnsTheChoicesTheModelLikesBest) {
  CoreDriver driver(small_config(64, *small_model()));
  GenerationRequest request = request_of(random_prompt(12, 9), 8);
  request.n = request.best_of = 4;
  request.sampling.temperature = 1.5f;
  request.top_logprobs = 0;
  const Received all = driver.generate(request);
  std::vector<double> sums;
  for (const auto& [choice, result] : all.choices) {
    sums.push_back(0);
    for (const float logprob : result.logprobs) sums.back() += static_cast<double>(logprob);
  }
  request.n = 1;
  const Received best = driver.generate(request);
  ASSERT_EQ(best.choices.size(), 1u);
  const auto index = std::ranges::max_element(sums) - sums.begin();
  EXPECT_EQ(best.choices.at(0).tokens, all.choices.at(static_cast<int>(index)).tokens);
}

TEST(EngineCore, StopStringsAndIdsEndAChoice) {
  CoreDriver driver(small_config(64, *small_model()));
  GenerationRequest request = request_of(random_prompt(12, 3), 40);
  const Received whole = driver.generate(request);
  const std::string& text = whole.choices.at(0).text;
  ASSERT_GT(text.size(), 12u);
  request.stop = {text.substr(6, 5)};
  const Received stopped = driver.generate(request);
  EXPECT_EQ(stopped.choices.at(0).text, text.substr(0, text.find(request.stop[0])));
  EXPECT_EQ(stopped.choices.at(0).finish, FinishReason::kStop);
  EXPECT_EQ(stopped.choices.at(0).stop_string, request.stop[0]);
  request.stop.clear();
  request.stop_ids = {whole.choices.at(0).tokens.at(5)};
  EXPECT_LE(driver.generate(request).choices.at(0).tokens.size(), 5u);
}

TEST(EngineCore, AGrammarDecidesWhatIsWritten) {
  const Model& model = *small_model();
  const auto vocabulary =
      make_model_vocabulary(*model.tokenizer(), model.traits().vocab, model.traits().eos_ids);
  EngineConfig config = small_config(24, model);
  CoreDriver driver(config);
  std::vector<RequestId> ids;
  for (uint64_t seed = 0; seed < 6; ++seed) {
    GenerationRequest request = request_of(random_prompt(40, seed), 60);
    request.ignore_eos = false;
    request.grammar = GrammarProgram::from_regex("(yes|no), [0-9]{3}", vocabulary);
    request.sampling.temperature = 1.f;
    request.seed = seed;
    request.n = request.best_of = 2;
    ids.push_back(driver.submit(std::move(request)));
  }
  driver.run();
  for (const RequestId id : ids)
    for (const auto& [choice, result] : driver.received[id].choices) {
      EXPECT_EQ(result.finish, FinishReason::kStop);
      EXPECT_TRUE(std::regex_match(result.text, std::regex("(yes|no), [0-9]{3}"))) << result.text;
    }
}

TEST(EngineCore, PromptLogprobsDoNotDependOnChunksOrCache) {
  EngineConfig config = small_config(64, *small_model());
  std::vector<std::vector<float>> seen;
  for (const int64_t tokens : {8, 64}) {
    config.max_batch_tokens = tokens;
    CoreDriver driver(config);
    GenerationRequest request = request_of(random_prompt(50, 2), 1);
    driver.generate(request);  // fills the cache
    request.prompt_logprobs = true;
    request.top_logprobs = 1;
    const Received got = driver.generate(request);
    ASSERT_EQ(got.prompt_logprobs.size(), 50u);
    seen.emplace_back();
    for (const GeneratedToken& token : got.prompt_logprobs) seen.back().push_back(token.logprob);
    EXPECT_LT(seen.back()[1], 0.f);
    EXPECT_EQ(got.prompt_logprobs[7].id, request.prompt[7]);
  }
  EXPECT_EQ(seen[0], seen[1]);
}

TEST(EngineCore, EmbeddingsAreTheSameForEveryChunking) {
  EngineConfig config = small_config(64, *small_model());
  for (const Pooling pooling : {Pooling::kMean, Pooling::kLast}) {
    std::vector<std::vector<float>> seen;
    for (const int64_t tokens : {8, 64}) {
      config.max_batch_tokens = tokens;
      CoreDriver driver(config);
      GenerationRequest request = request_of(random_prompt(33, 2), 0);
      request.pooling = pooling;
      const Received got = driver.generate(request);
      EXPECT_EQ(std::ssize(got.embedding), small_model()->traits().hidden);
      EXPECT_EQ(got.choices.at(0).finish, FinishReason::kStop);
      seen.push_back(got.embedding);
    }
    EXPECT_EQ(seen[0], seen[1]);
  }
}

TEST(EngineCore, DeadlinesAndCancellationsKeepWhatIsThere) {
  CoreDriver driver(small_config(64, *small_model()));
  GenerationRequest request = request_of(random_prompt(8, 2), 100);
  request.deadline = driver.now + std::chrono::milliseconds(20);
  request.n = request.best_of = 2;
  const Received late = driver.generate(request);
  EXPECT_EQ(late.choices.at(1).finish, FinishReason::kDeadline);
  EXPECT_GT(late.choices.at(0).tokens.size(), 0u);
  request.deadline.reset();
  const RequestId id = driver.submit(request);
  driver.cancel(id);  // before anything ran
  EXPECT_TRUE(driver.core.idle());
  EXPECT_EQ(driver.received[id].choices.at(1).finish, FinishReason::kCancelled);
}

TEST(EngineCore, APausedRequestMakesRoomAndGoesOnWhereItWas) {
  for (const Preemption preemption : {Preemption::kRecompute, Preemption::kSwap}) {
    EngineConfig config = small_config(16, *small_model());
    config.max_sequences = 1;
    config.preemption = preemption;
    CoreDriver driver(config);
    const GenerationRequest slow = request_of(random_prompt(40, 3), 40),
                            other = request_of(random_prompt(80, 4), 10);
    const std::vector<int32_t> expected = OneByOne(config).generate(slow).tokens;
    const RequestId id = driver.submit(slow);
    while (driver.received[id].choices[0].tokens.size() < 5) driver.step();
    driver.core.pause(id, true, driver.now);
    for (int i = 0; i < 5; ++i) driver.step();
    const size_t so_far = driver.received[id].choices[0].tokens.size();
    EXPECT_EQ(driver.core.stats().paused, 1);
    const RequestId second = driver.submit(other);  // needs the paused one's place, and its pages
    for (int i = 0; i < 100 && !driver.received[second].done; ++i) driver.step();
    EXPECT_TRUE(driver.received[second].done);
    EXPECT_GT(driver.core.stats().preemptions, 0u);
    EXPECT_EQ(driver.received[id].choices[0].tokens.size(), so_far);
    driver.core.pause(id, false, driver.now);
    driver.run();
    EXPECT_EQ(driver.received[id].choices[0].tokens, expected);
    EXPECT_NE(driver.explain_last(100).find("its client reads too slowly"), std::string::npos);
  }
}

TEST(EngineCore, RefusesWhatItCannotTake) {
  EngineConfig config = small_config(8, *small_model());
  config.max_queue = 1;
  CoreDriver driver(config);
  EXPECT_NE(driver.generate(request_of({}, 4)).error.find("no tokens"), std::string::npos);
  const Received too_long = driver.generate(request_of(random_prompt(1000, 1), 4));
  EXPECT_NE(too_long.error.find("64"), std::string::npos);
  EXPECT_EQ(too_long.error_kind, ErrorKind::kTooLong);
  EXPECT_NE(driver.generate(request_of({-1}, 4)).error.find("vocabulary"), std::string::npos);
  GenerationRequest many = request_of({1}, 4);
  many.n = 100;
  EXPECT_NE(driver.generate(many).error.find("at most 8"), std::string::npos);
  driver.submit(request_of({1}, 4));
  const RequestId second = driver.submit(request_of({1}, 4));
  EXPECT_NE(driver.received[second].error.find("queue is full"), std::string::npos);
  EXPECT_TRUE(driver.received[second].done);
  EXPECT_EQ(driver.received[second].error_kind, ErrorKind::kQueueFull);
}

TEST(EngineCore, AContextThatIsFullEndsWithLength) {
  CoreDriver driver(small_config(4, *small_model()));
  const Received got = driver.generate(request_of(random_prompt(30, 1), 100));
  EXPECT_EQ(got.choices.at(0).finish, FinishReason::kLength);
  EXPECT_EQ(got.choices.at(0).tokens.size(), 3u) << "after 32 cached tokens one more can be sampled";
}

TEST(EngineCore, TenThousandSubmissionsAndCancellationsLeaveNoPageHeld) {
  EngineConfig config = small_config(20, *small_model());
  config.max_queue = 40;
  CoreDriver driver(config);
  Philox random(77);
  const auto some = [&](uint32_t count) { return random.next_u32() % count; };
  for (int i = 0; i < 10000; ++i) {
    if (some(5) < 2) {
      GenerationRequest request = request_of(random_prompt(1 + some(60), some(6)), some(6));
      request.n = request.best_of = 1 + static_cast<int>(some(3));
      request.priority = static_cast<int>(some(3));
      driver.submit(std::move(request));
    } else if (some(3) < 2) {
      driver.cancel(RequestId{driver.last_id - some(30)});
    } else {
      driver.now += std::chrono::milliseconds(1);
      driver.core.step(driver.now);
      driver.core.deliver(driver.now);
    }
    if (i % 100 == 0) driver.core.check_invariants();
  }
  driver.run();
  const EngineStats stats = driver.core.stats();
  EXPECT_EQ(stats.pages_free + stats.pages_cached, stats.pages_total);
  for (const auto& [id, received] : driver.received) EXPECT_TRUE(received.done);
}

}  // namespace
}  // namespace cheetah
