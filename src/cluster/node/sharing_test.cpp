// SPDX-License-Identifier: MIT
#include "cluster/node/sharing.h"

#include <gtest/gtest.h>

#include <utility>

#include "cluster/net/local_mesh.h"

namespace cheetah::cluster {
namespace {

constexpr Time kNow{std::chrono::hours(1)};

// A node as far as sharing goes: what it sends lies in `sent`.
struct Member {
  Member(LocalNetwork& network, WorkerId id, Role role, bool router)
      : mesh(network.join(id)), peers(*mesh, id, role, router) {
    PolicyConfig config;
    config.qos.quotas = {{.tenant = "*", .tokens_per_s = 1, .burst_tokens = 100}};
    if (router) routing = std::make_unique<PolicyRouting>(config);
    sharing = std::make_unique<Sharing>(Sharing::Setting{.routing = routing.get(),
        .has_cache = !router,
        .peers = peers,
        .send = [this](WorkerId to, const Message& message) { sent.emplace_back(to, message); }});
  }
  void meets(WorkerId id, Role role) {
    WorkerDescriptor other;
    other.id = id;
    other.role = role;
    peers.put(other);
    peers.up(id);
    sharing->hear(id, Hello{other}, 0, kNow);
  }
  std::vector<std::pair<WorkerId, Message>> take_sent() { return std::exchange(sent, {}); }

  std::unique_ptr<Mesh> mesh;
  PeerTable peers;
  std::unique_ptr<PolicyRouting> routing;
  std::unique_ptr<Sharing> sharing;
  std::vector<std::pair<WorkerId, Message>> sent;
};

constexpr WorkerId kA{1}, kB{2}, kWorker{3};

TEST(Sharing, ARouterThatMeetsAWorkerKnowsItsCacheAndKeepsUp) {
  LocalNetwork network;
  Member router(network, kA, Role::kRouter, true), worker(network, kWorker, Role::kDecode, false);
  worker.sharing->cache_changed({{.stored = true, .block = 7}, {.stored = true, .block = 8}});
  worker.sharing->cache_changed({{.stored = false, .block = 7}});
  router.meets(kWorker, Role::kDecode);
  auto asked = router.take_sent();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_TRUE(worker.sharing->hear(kA, asked[0].second, 3, kNow));
  auto told = worker.take_sent();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].first, kA);
  EXPECT_TRUE(router.sharing->hear(kWorker, told[0].second, 0, kNow));
  const KvIndex& index = router.routing->kv_index();
  EXPECT_TRUE(index.sure(kWorker));
  EXPECT_EQ(index.matched_blocks(kWorker, std::vector<BlockHash>{8}), 1);
  EXPECT_EQ(index.matched_blocks(kWorker, std::vector<BlockHash>{7}), 0);
  router.routing->learn(kWorker, KvEvents{.worker = kWorker, .first_number = 3, .changes = {{.block = 9}}});
  EXPECT_EQ(index.num_blocks(), 2);
  // It misses something: it asks again, and not all the time.
  router.routing->learn(kWorker, KvEvents{.worker = kWorker, .first_number = 9, .changes = {{.block = 10}}});
  EXPECT_FALSE(index.sure(kWorker));
  router.sharing->beat(kNow);
  EXPECT_EQ(router.take_sent().size(), 1u);
  router.sharing->beat(kNow + std::chrono::milliseconds(200));
  EXPECT_TRUE(router.take_sent().empty());
}

TEST(Sharing, RoutersTellEachOtherWhatIsLeftOfQuotasAndNobodyElseIsBelieved) {
  LocalNetwork network;
  Member a(network, kA, Role::kRouter, true), b(network, kB, Role::kRouter, true);
  a.routing->hear(QuotaNews{{{.tenant = "t", .left = 5}}}, kNow);
  a.meets(kB, Role::kRouter);
  const auto told = a.take_sent();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(b.sharing->hear(kA, told[0].second, 0, kNow)) << "whom it does not know yet";
  EXPECT_TRUE(b.routing->all_quotas().empty());
  b.meets(kA, Role::kRouter);
  b.sharing->hear(kA, told[0].second, 0, kNow);
  ASSERT_EQ(b.routing->all_quotas().size(), 1u);
  EXPECT_DOUBLE_EQ(b.routing->all_quotas()[0].left, 5);
  b.meets(kWorker, Role::kDecode);
  b.sharing->hear(kWorker, QuotaNews{{{.tenant = "t", .taken = 5, .left = 0}}}, 0, kNow);
  EXPECT_DOUBLE_EQ(b.routing->all_quotas()[0].left, 5) << "a worker takes nothing from quotas";
  b.sharing->hear(kA, QuotaNews{{{.tenant = "t", .taken = 2, .left = 3}}}, 0, kNow);
  EXPECT_DOUBLE_EQ(b.routing->all_quotas()[0].left, 3);
  b.take_sent();
  b.sharing->beat(kNow);
  EXPECT_TRUE(b.take_sent().empty()) << "what others took is theirs to tell";
}

}  // namespace
}  // namespace cheetah::cluster
