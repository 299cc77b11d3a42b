// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/ahead_driver.h"
#include "engine/mixed_requests.h"

namespace cheetah {
namespace {

class AheadTest : public testing::TestWithParam<std::tuple<Preemption, bool, int64_t>> {};

TEST_P(AheadTest, MixedRequestsGetTheTokensOfOneStepAtATime) {
  const auto [preemption, with_grammars, num_pages] = GetParam();
  EngineConfig config = small_config(num_pages, *small_model());
  config.max_context = 120;
  config.preemption = preemption;
  CoreDriver plain(config);
  AheadDriver ahead(config);
  constexpr int kRequests = 60;
  std::vector<RequestId> plain_ids, ahead_ids;
  for (int i = 0; i < kRequests; ++i) {
    plain_ids.push_back(plain.submit(request_number(i, with_grammars)));
    ahead_ids.push_back(ahead.submit(request_number(i, with_grammars)));
    for (int k = 0; k < i % 4; ++k) ahead.step();
  }
  plain.run();
  ahead.run();
  for (size_t i = 0; i < plain_ids.size(); ++i)
    expect_equal(ahead.received[ahead_ids[i]], plain.received[plain_ids[i]], static_cast<int>(i));
  EXPECT_GT(ahead.runner->num_fed, 0);
  expect_no_page_leaked(ahead);
}

INSTANTIATE_TEST_SUITE_P(Loads, AheadTest,
    testing::Values(std::tuple(Preemption::kRecompute, false, 200),
        std::tuple(Preemption::kRecompute, false, 20), std::tuple(Preemption::kRecompute, true, 20),
        std::tuple(Preemption::kSwap, true, 20)));

TEST(EngineAhead, EveryTokenButTheFirstOfAStreamIsFedOnTheDevice) {
  AheadDriver driver(small_config(64, *small_model()));
  GenerationRequest request;
  request.prompt = random_prompt(20, 1);
  request.max_tokens = 30;
  request.ignore_eos = true;
  EXPECT_EQ(driver.generate(request).choices.at(0).tokens.size(), 30u);
  EXPECT_EQ(driver.runner->num_fed, 29);
  EXPECT_EQ(driver.core.stats().graphs.launched, driver.runner->graphs.launched);
  expect_no_page_leaked(driver);
}

TEST(EngineAhead, CancellationsAtAnyMomentKeepWhatCameAndLeakNothing) {
  const EngineConfig config = small_config(40, *small_model());
  CoreDriver plain(config);
  AheadDriver ahead(config);
  Philox random(5);
  std::vector<RequestId> ids, expected;
  for (int i = 0; i < 120; ++i) {
    expected.push_back(plain.submit(request_number(i, false)));
    ids.push_back(ahead.submit(request_number(i, false)));
    const uint32_t steps = random.next_u32() % 4;
    for (uint32_t k = 0; k < steps; ++k) ahead.step();
    if (random.next_u32() % 2 == 0) ahead.cancel(ids[random.next_u32() % ids.size()]);
  }
  plain.run();
  ahead.run();
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_TRUE(ahead.received[ids[i]].done);
    if (request_number(static_cast<int>(i), false).best_of > 1) continue;  // they may end in another order
    const auto& got = ahead.received[ids[i]].choices.at(0).tokens;
    const auto& whole = plain.received[expected[i]].choices.at(0).tokens;
    ASSERT_LE(got.size(), whole.size());
    EXPECT_TRUE(std::equal(got.begin(), got.end(), whole.begin())) << i;
  }
  expect_no_page_leaked(ahead);
}

TEST(EngineAhead, ABatchThatCannotBeIsComputedOneByOne) {
  const EngineConfig config = small_config(64, *small_model());
  CoreDriver plain(config);
  AheadDriver ahead(config);
  std::vector<RequestId> ids, expected;
  for (int i = 1; i < 5; ++i) {
    expected.push_back(plain.submit(request_number(i, false)));
    ids.push_back(ahead.submit(request_number(i, false)));
  }
  plain.run();
  for (int i = 0; i < 6; ++i) ahead.step();
  ahead.runner->fails_at = 1;
  ahead.run();
  for (size_t i = 0; i < ids.size(); ++i)
    expect_equal(ahead.received[ids[i]], plain.received[expected[i]], static_cast<int>(i));
  expect_no_page_leaked(ahead);
}

TEST(EngineAhead, ALostDeviceEndsEveryRequestWithAnError) {
  AheadDriver driver(small_config(64, *small_model()));
  std::vector<RequestId> ids;
  for (int i = 1; i < 5; ++i) {
    GenerationRequest request = request_number(i, false);
    request.max_tokens = 50;
    ids.push_back(driver.submit(std::move(request)));
  }
  for (int i = 0; i < 6; ++i) driver.step();
  driver.runner->loses_device = true;
  driver.run();
  for (const RequestId id : ids) EXPECT_EQ(driver.received[id].error_kind, ErrorKind::kInternal);
  expect_no_page_leaked(driver);
}

}  // namespace
}  // namespace cheetah
