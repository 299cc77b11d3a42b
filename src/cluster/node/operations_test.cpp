// SPDX-License-Identifier: MIT
// What operators do with a cluster in one process.
#include "cluster/node/operations.h"

#include <future>

#include "base/json.h"

#include "cluster/node/node_fixture.h"
#include "engine/tags/request_origin.h"

namespace cheetah::cluster {
namespace {

struct Said {
  int status = 0;
  Json body;
  std::string code, error;
};

Said ask_admin(
    Node& router, const std::string& method, const std::string& path, const Json& body = Json::object()) {
  std::promise<AdminAnswer> promise;
  router.admin({.method = method, .path = path, .body = dump_json(body), .who = "test", .address = "here"},
      [&promise](AdminAnswer answer) { promise.set_value(std::move(answer)); });
  const AdminAnswer answer = promise.get_future().get();
  return {answer.status, answer.body.empty() ? Json() : Json::parse(answer.body), answer.code, answer.error};
}

std::string state_of(Node& router, const std::string& name) {
  const Json cluster = ask_admin(router, "GET", "cluster").body;
  for (const Json& worker : cluster["workers"])
    if (worker["name"] == name) return worker["state"];
  return "absent";
}

bool becomes_state(Node& router, const std::string& name, const std::string& state) {
  return OneProcess::becomes([&] { return state_of(router, name) == state; });
}

// Which worker has the only request.
std::string busy_worker(Node& router) {
  std::string busy;
  OneProcess::becomes([&] {
    const Json cluster = ask_admin(router, "GET", "cluster").body;
    for (const Json& worker : cluster["workers"])
      if (worker["in_flight"] > 0) busy = worker["name"];
    return !busy.empty();
  });
  return busy;
}

std::string name_of(const Node& node) { return node.status().self.name; }

TEST(Operations, ACordonedWorkerFinishesWhatItHasAndGetsNothingNew) {
  Engine engine(small_model(), small_engine());
  OneProcess cluster(0, 2, {});
  Node& router = *cluster.router;
  const std::string first = name_of(*cluster.workers[0]), second = name_of(*cluster.workers[1]);
  const GenerationRequest running = request_of(1, 50, 100);
  Answer answer;
  router.backend().submit(running, answer.sink());
  router.backend().pause(running.id);  // it is there as long as the test wants
  const std::string busy = busy_worker(router);
  ASSERT_NE(busy, "");
  EXPECT_EQ(ask_admin(router, "POST", "cordon", {{"node", busy}, {"why", "a new disk"}}).status, 200);
  ASSERT_TRUE(becomes_state(router, busy, "cordoned"));
  for (uint64_t id = 2; id < 6; ++id) ask(router.backend(), request_of(id, 20, 8));
  router.backend().resume(running.id);
  EXPECT_EQ(tokens_of(answer.wait()), ask(engine, running));
  EXPECT_EQ(answer.times()->attempts, 1) << "it was moved";
  EXPECT_EQ(answer.times()->decode_worker, busy);
  const Said last = ask_admin(router, "POST", "cordon", {{"node", busy == first ? second : first}});
  EXPECT_EQ(last.code, "last_decoder") << last.error;
  EXPECT_EQ(ask_admin(router, "POST", "uncordon", {{"node", busy}}).status, 200);
  EXPECT_TRUE(becomes_state(router, busy, "ready"));
}

TEST(Operations, ADrainedWorkerHandsOverTokenByTokenAndSaysSo) {
  Engine engine(small_model(), small_engine());
  OneProcess cluster(1, 2, always_remote());
  Node& router = *cluster.router;
  const GenerationRequest running = request_of(1, 100, 100);
  Answer answer;
  router.backend().submit(running, answer.sink());
  router.backend().pause(running.id);
  const std::string busy = busy_worker(router);
  ASSERT_NE(busy, "");
  EXPECT_EQ(ask_admin(router, "POST", "drain", {{"node", busy}, {"limit_s", 0}}).status, 200);
  EXPECT_TRUE(becomes_state(router, busy, "drained"));
  router.backend().resume(running.id);
  EXPECT_EQ(tokens_of(answer.wait()), ask(engine, running));
  // The order is each node's: a worker that is drained stays so, and one that is free again serves.
  EXPECT_EQ(ask_admin(router, "POST", "uncordon", {{"node", busy}}).status, 200);
  EXPECT_TRUE(becomes_state(router, busy, "ready"));
}

TEST(Operations, ARoleThatAnOperatorOrderedIsTaken) {
  Engine engine(small_model(), small_engine());
  OneProcess cluster(1, 2, {});
  Node& router = *cluster.router;
  const std::string name = name_of(*cluster.workers[2]);
  EXPECT_EQ(ask_admin(router, "POST", "role", {{"node", name}, {"role", "prefill"}}).status, 200);
  const auto role_is = [&](Role role) {
    return OneProcess::becomes([&] {
      const WorkerDescriptor self = cluster.workers[2]->status().self;
      return self.role == role && self.state == WorkerState::kReady;
    });
  };
  EXPECT_TRUE(role_is(Role::kPrefill));
  EXPECT_EQ(cluster.workers[2]->status().self.epoch, 2u);
  const GenerationRequest request = request_of(1, 300);
  EXPECT_EQ(ask(router.backend(), request), ask(engine, request));
  const Said last =
      ask_admin(router, "POST", "role", {{"node", name_of(*cluster.workers[1])}, {"role", "prefill"}});
  EXPECT_EQ(last.code, "last_decoder") << last.error;
  EXPECT_EQ(ask_admin(router, "POST", "role", {{"node", name}, {"role", "cook"}}).status, 400);
}

TEST(Operations, ATraceTellsTheWayOfACall) {
  OneProcess cluster(1, 1, always_remote());
  Node& router = *cluster.router;
  GenerationRequest request = request_of(1, 300, 8);
  request.tag = RequestOrigin{.tenant = "t", .call = "req_1", .trace = "", .headers = {}};
  ask(router.backend(), request);
  const Said said = ask_admin(router, "GET", "trace/chatcmpl-req_1");
  ASSERT_EQ(said.status, 200) << said.error;
  ASSERT_EQ(said.body["requests"].size(), 1u);
  const Json& trace = said.body["requests"][0];
  EXPECT_EQ(trace["generated"], 8);
  EXPECT_EQ(trace["finish"], "length");
  EXPECT_FALSE(trace["running"].get<bool>());
  EXPECT_EQ(trace["steps"][0]["what"], "decode at " + name_of(*cluster.workers[1]));
  EXPECT_EQ(trace["workers"]["prefill_worker"], name_of(*cluster.workers[0]));
  EXPECT_GT(trace["workers"]["slabs"].size(), 0u);
  EXPECT_GE(trace["total_ms"].get<double>(), trace["first_token_ms"].get<double>());
  EXPECT_EQ(ask_admin(router, "GET", "trace/req_2").code, "request_not_found");
}

TEST(Operations, ScaleIsExportedUntilItIsLifted) {
  OneProcess cluster(1, 1, {});
  Node& router = *cluster.router;
  const auto exported = [&](const std::string& text) {
    return OneProcess::becomes([&] { return router.metrics().find(text) != std::string::npos; });
  };
  EXPECT_EQ(router.metrics().find("cheetah_cluster_desired_replicas"), std::string::npos);
  EXPECT_EQ(ask_admin(router, "POST", "scale", {{"pool", "decode"}, {"replicas", 7}}).status, 200);
  EXPECT_TRUE(exported("cheetah_cluster_desired_replicas{pool=\"decode\"} 7"));
  EXPECT_EQ(ask_admin(router, "POST", "scale", {{"pool", "decode"}, {"replicas", nullptr}}).status, 200);
  EXPECT_TRUE(OneProcess::becomes(
      [&] { return router.metrics().find("cheetah_cluster_desired_replicas") == std::string::npos; }));
  for (const Json& bad : {Json{{"pool", "cache"}, {"replicas", 1}}, Json{{"pool", "decode"}, {"replicas", 0}},
           Json{{"pool", "decode"}, {"replicas", "many"}}, Json{{"pool", "decode"}}})
    EXPECT_EQ(ask_admin(router, "POST", "scale", bad).status, 400) << bad;
}

TEST(Operations, WhatIsNotThereIsNamed) {
  OneProcess cluster(0, 1, {});
  Node& router = *cluster.router;
  const Said said = ask_admin(router, "POST", "cordon", {{"node", "nobody"}});
  EXPECT_EQ(said.status, 404);
  EXPECT_NE(said.error.find(name_of(*cluster.workers[0])), std::string::npos) << said.error;
  EXPECT_EQ(ask_admin(router, "POST", "cordon").status, 400);
  EXPECT_EQ(ask_admin(router, "POST", "reboot").status, 404);
  EXPECT_EQ(ask_admin(router, "GET", "reboot").status, 404);
}

}  // namespace
}  // namespace cheetah::cluster
