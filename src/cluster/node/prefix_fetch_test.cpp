// SPDX-License-Identifier: MIT
// Whole nodes in one process: a prefix goes from one decode worker to another, and the tokens stay the same.
#include "cluster/node/node_fixture.h"

namespace cheetah::cluster {
namespace {

TEST(PrefixFetching, APrefixThatAnotherWorkerHasIsFetchedToTheToken) {
  PolicyConfig policy;
  policy.routing.worker_policy = WorkerPolicy::kRoundRobin;  // so that it comes to another worker
  policy.routing.offload_policy = OffloadPolicy::kNever;
  policy.routing.fetch.min_tokens = 64;
  policy.routing.fetch.margin_ms = 0;
  policy.routing.cost.transfer_overhead_ms = 0;
  Engine engine(small_model(), small_engine());
  OneProcess cluster(0, 2, policy);
  GenerationRequest request = request_of(1, 700);
  const auto expected = ask(engine, request);
  EXPECT_EQ(ask(cluster.router->backend(), request), expected);
  // The router has heard of the pages, and of how long a prompt takes.
  ASSERT_TRUE(OneProcess::becomes([&] {
    const NodeStatus status = cluster.router->status();
    return status.policy.kv_index_blocks > 0 && std::ranges::any_of(status.workers, [](const auto& known) {
      return known.second.load.prefill_us_per_token > 0;
    });
  }));
  for (uint64_t id = 2; id < 6; ++id) {
    request.id = RequestId{id};
    EXPECT_EQ(ask(cluster.router->backend(), request), expected) << id;
  }
  EXPECT_TRUE(cluster.counts_at_least(Counter::kPrefixFetches, 1)) << cluster.told();
  EXPECT_TRUE(cluster.counts_at_least(Counter::kSlabsImported, 1)) << cluster.told();
  EXPECT_TRUE(cluster.becomes_empty()) << cluster.told();
}

}  // namespace
}  // namespace cheetah::cluster
