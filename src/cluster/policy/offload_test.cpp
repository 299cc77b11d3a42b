// SPDX-License-Identifier: MIT
#include "cluster/policy/offload.h"

#include <gtest/gtest.h>

#include "cluster/policy/policy_fixture.h"
#include "cluster/policy/predict.h"

namespace cheetah::cluster {
namespace {

TEST(Offload, ThresholdRuleP1) {
  struct Case {
    OffloadInputs inputs;
    PrefillMode mode;
    PrefillReason reason;
  };
  using enum PrefillReason;
  const Case cases[] = {
      {{.effective_tokens = 256, .queue_depth = 9}, PrefillMode::kRemote, kLongPrompt},
      {{.effective_tokens = 256, .queue_depth = 10}, PrefillMode::kLocal, kQueueDeep},
      {{.effective_tokens = 255, .queue_depth = 0}, PrefillMode::kLocal, kShortPrompt},
      {{.effective_tokens = 64, .queue_depth = 9, .decode_active = 8}, PrefillMode::kRemote, kBusyDecode},
      {{.effective_tokens = 64, .queue_depth = 10, .decode_active = 8}, PrefillMode::kLocal, kQueueDeep},
      {{.effective_tokens = 63, .queue_depth = 0, .decode_active = 99}, PrefillMode::kLocal, kShortPrompt},
      {{.effective_tokens = 64, .queue_depth = 0, .decode_active = 7}, PrefillMode::kLocal, kShortPrompt},
      {{.effective_tokens = 256, .queue_depth = 99, .urgent = true}, PrefillMode::kRemote, kLongPrompt},
  };
  for (const Case& c : cases) {
    const OffloadAnswer answer = threshold_offload(c.inputs, {});
    EXPECT_EQ(answer.mode, c.mode) << c.inputs.effective_tokens << " " << c.inputs.queue_depth;
    EXPECT_EQ(answer.reason, c.reason) << c.inputs.effective_tokens << " " << c.inputs.queue_depth;
  }
}

TEST(Offload, ScoreRuleP4HasItsTruthTable) {
  const RoutingConfig config;
  const auto score = [&](int64_t length, int64_t depth) {
    return offload_score({.effective_tokens = length, .queue_depth = depth}, config.rules);
  };
  EXPECT_DOUBLE_EQ(score(1000, 0), 0.7);
  EXPECT_DOUBLE_EQ(score(1000, 11), 0.4);
  EXPECT_DOUBLE_EQ(score(100, 0), 0.0);
  EXPECT_DOUBLE_EQ(score(100, 11), -0.3);
  EXPECT_GT(score(1000, 0), config.remote_min_score);
  EXPECT_LT(score(1000, 11), config.remote_min_score);
}

class Decide : public testing::Test {
 protected:
  OffloadAnswer decide(const RouteRequest& request) {
    return decide_prefill(view, view.workers[0], request, config, worth);
  }
  ClusterView view = small_cluster(1, 1);
  RoutingConfig config;
  WorthTable worth;
};

TEST_F(Decide, EachObstacleHasItsName) {
  config.offload_policy = OffloadPolicy::kAlways;
  EXPECT_EQ(decide(prompt_of(1000)).reason, PrefillReason::kPolicyAlways);
  EXPECT_EQ(decide(prompt_of(1000)).prefill_worker, worker_id(200));
  EXPECT_EQ(decide(prompt_of(10)).reason, PrefillReason::kShortPrompt);
  RouteRequest cached = prompt_of(1000);
  cached.cached = {{worker_id(100), 992}};
  EXPECT_EQ(decide(cached).reason, PrefillReason::kCached);
  RouteRequest kept = prompt_of(1000);
  kept.allow_remote_prefill = false;
  EXPECT_EQ(decide(kept).reason, PrefillReason::kNotAsked);
  view.prefill_queue.up = false;
  EXPECT_EQ(decide(prompt_of(1000)).reason, PrefillReason::kQueueDown);
  view.prefill_breaker_open = true;
  EXPECT_EQ(decide(prompt_of(1000)).reason, PrefillReason::kBreakerOpen);
  config.offload_policy = OffloadPolicy::kNever;
  EXPECT_EQ(decide(prompt_of(1000)).reason, PrefillReason::kPolicyNever);
}

TEST_F(Decide, PagesOfAnotherShapeAreNotSentFor) {
  config.offload_policy = OffloadPolicy::kAlways;
  view.workers[1].descriptor.kv.num_layers = 5;
  EXPECT_EQ(decide(prompt_of(1000)).reason, PrefillReason::kNoPrefillWorker);
  view.workers[1] = ready_worker(200, Role::kPrefill);
  KvDescriptor& kv = view.workers[1].descriptor.kv;
  kv.dtype = "F32";  // transformed on the way
  kv.page_tokens = 64;
  kv.page_bytes = 0;
  EXPECT_EQ(decide(prompt_of(1000)).mode, PrefillMode::kRemote);
  kv.tp_size = 2;  // one of two shards: half of what is needed
  EXPECT_EQ(decide(prompt_of(1000)).reason, PrefillReason::kNoPrefillWorker);
  view.workers[1] = ready_worker(200, Role::kPrefill);
  view.workers[1].descriptor.state = WorkerState::kDraining;
  EXPECT_EQ(decide(prompt_of(1000)).reason, PrefillReason::kNoPrefillWorker);
}

TEST_F(Decide, CostKeepsAPromptLocalOnAnIdleWorkerAndSendsItAwayFromABusyOne) {
  EXPECT_EQ(decide(prompt_of(1000)).reason, PrefillReason::kLocalFaster);  // remote adds the transfer
  view.workers[0].load.prefill_tokens = 5000;
  const OffloadAnswer busy = decide(prompt_of(1000));
  EXPECT_EQ(busy.reason, PrefillReason::kRemoteFaster);
  EXPECT_LT(busy.remote_ms, busy.local_ms);
  view.prefill_queue.tokens = 10'000;
  EXPECT_EQ(decide(prompt_of(1000)).mode, PrefillMode::kLocal);
}

TEST_F(Decide, CostCountsTheTransferByItsBytes) {
  // 1000 tokens of 4 KiB at 1 GB/s are 4.1 ms, of which a fifth shows, with 2 ms besides: 100 + 2.82 + 10.
  const auto remote = best_remote(view, view.workers[0], prompt_of(1000), config);
  ASSERT_TRUE(remote);
  EXPECT_NEAR(remote->ttft_ms, 112.82, 0.01);
  view.transfer_bytes_per_s = 1e6;
  EXPECT_NEAR(
      best_remote(view, view.workers[0], prompt_of(1000), config)->ttft_ms, 100 + 2 + 819.2 + 10, 0.1);
}

TEST_F(Decide, CostCountsWithTheRateThatThePrefillWorkerHasMeasured) {
  view.transfer_bytes_per_s = 1e6;
  view.workers[1].load.transfer_bytes_per_s = 4e9;  // 4.1 MB take 1.02 ms, of which a fifth shows
  EXPECT_NEAR(best_remote(view, view.workers[0], prompt_of(1000), config)->ttft_ms, 112.205, 0.01);
  view.workers[0].load.prefill_tokens = 400;  // the decode worker is a little busy: the link decides
  EXPECT_EQ(decide(prompt_of(1000)).reason, PrefillReason::kRemoteFaster);
  view.workers[1].load.transfer_bytes_per_s = 1e6;
  EXPECT_EQ(decide(prompt_of(1000)).reason, PrefillReason::kLocalFaster);
}

TEST_F(Decide, CostCountsTheBytesAsTheyTravel) {
  KvDescriptor& kv = view.workers[1].descriptor.kv;  // narrower than what the decode worker keeps
  kv.dtype = "I8";
  kv.page_bytes = 16 * 2304;
  EXPECT_NEAR(best_remote(view, view.workers[0], prompt_of(1000), config)->ttft_ms,
      100 + 2 + 0.2 * 2.304 + 10, 0.001);
}

TEST_F(Decide, MeasuredLossKeepsPromptsLocalExceptTheExploringOnes) {
  config.offload_policy = OffloadPolicy::kThreshold;
  config.worth.explore = 0.1;
  for (int i = 0; i < 20; ++i) {
    worth.observe({.effective_tokens = 1000, .way = Way::kDisaggregated, .ttft_ms = 300}, config.worth);
    worth.observe({.effective_tokens = 1000, .way = Way::kAggregated, .ttft_ms = 100}, config.worth);
  }
  int remote = 0, measured = 0;
  for (int i = 0; i < 100; ++i) {
    const OffloadAnswer answer = decide(prompt_of(1000));
    remote += answer.mode == PrefillMode::kRemote ? 1 : 0;
    measured += answer.reason == PrefillReason::kMeasuredLoss ? 1 : 0;
  }
  EXPECT_EQ(remote, 10);
  EXPECT_EQ(measured, 90);
}

}  // namespace
}  // namespace cheetah::cluster
