// SPDX-License-Identifier: MIT
// A server of several models that come and go, as its clients see it.
#include <gtest/gtest.h>

#include "serve/pool_answers.h"
#include "serve/pool_fixture.h"

namespace cheetah {
namespace {

struct PoolServer {
  explicit PoolServer(ModelPool::Settings settings = {}) : server(quiet()), log(quiet().log) {
    pool = std::make_unique<ModelPool>(
        std::make_unique<SmallLoader>(plan), named_models({"a", "b"}), settings, log);
    server.serve(*pool);
  }
  ~PoolServer() {
    server.stop();
    pool.reset();
  }
  TestResponse ask(const std::string& request) {
    TestClient client(server.port());
    return client.ask(request);
  }
  Json json(const std::string& request) { return Json::parse(ask(request).body); }
  static std::string wanted(const std::string& model, int64_t tokens = 4, bool stream = false) {
    Json body = completion(tokens, stream);
    body["model"] = model;
    return post("/v1/completions", body);
  }

  PoolPlan plan;
  Server server;
  EventLog log;
  std::unique_ptr<ModelPool> pool;
};

TEST(PoolServer, LoadsTheModelThatACallNames) {
  PoolServer s;
  EXPECT_EQ(s.ask(get("/health/ready")).status, 200) << "nothing is loaded, and all can be asked for";
  const Json answer = s.json(PoolServer::wanted("b"));
  EXPECT_EQ(answer["model"], "b");
  EXPECT_EQ(s.plan.history.text(), "+b");
  EXPECT_EQ(code_of(s.ask(PoolServer::wanted("x"))), "model_not_found");
  EXPECT_EQ(s.ask(post("/v1/completions", Json{{"prompt", 7}})).status, 400)
      << "its parser says what is wrong";
}

TEST(PoolServer, ListsAllModelsWithTheirState) {
  PoolServer s;
  s.ask(PoolServer::wanted("b"));
  const Json list = s.json(get("/v1/models"))["data"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["id"], "a");
  EXPECT_EQ(list[0]["status"]["value"], "unloaded");
  EXPECT_EQ(list[1]["status"]["value"], "loaded");
  EXPECT_TRUE(list[1].contains("max_model_len"));
  EXPECT_EQ(s.json(get("/v1/models/a"))["id"], "a");
  EXPECT_EQ(s.json(get("/api/tags"))["models"].size(), 2u);
  const Json loaded = s.json(get("/api/ps"))["models"];
  ASSERT_EQ(loaded.size(), 1u);
  EXPECT_EQ(loaded[0]["name"], "b");
}

// One model at a time and many clients that want either: each gets the bytes it would have got alone.
TEST(PoolServer, NoCallIsLostToAnUnload) {
  PoolServer s({.max_loaded = 1});
  const std::string expected = s.json(PoolServer::wanted("a", 20))["choices"].dump();
  std::vector<std::thread> clients;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 6; ++i)
    clients.emplace_back([&, i] {
      for (int k = 0; k < 4; ++k) {
        const std::string model = (i + k) % 2 == 0 ? "a" : "b";
        const TestResponse response = s.ask(PoolServer::wanted(model, 20));
        const Json answer = Json::parse(response.body, nullptr, false);
        wrong += response.status != 200 || answer["model"] != model || answer["choices"].dump() != expected;
      }
    });
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(wrong, 0);
}

TEST(PoolServer, SleepWakeLoadAndUnloadAreThere) {
  PoolServer s;
  s.ask(PoolServer::wanted("a"));
  EXPECT_EQ(s.ask(post("/sleep?level=1", Json::object())).status, 200);
  EXPECT_EQ(s.json(get("/is_sleeping"))["is_sleeping"], true);
  EXPECT_EQ(s.json(get("/v1/models/a"))["status"]["value"], "sleeping");
  EXPECT_EQ(s.ask(post("/wake_up", Json::object())).status, 200);
  EXPECT_EQ(s.json(get("/is_sleeping"))["is_sleeping"], false);
  EXPECT_EQ(s.ask(post("/models/unload", Json{{"model", "a"}})).status, 200);
  EXPECT_EQ(s.json(get("/v1/models/a"))["status"]["value"], "unloaded");
  EXPECT_EQ(s.json(post("/models/load", Json{{"model", "b"}}))["success"], true);
  EXPECT_TRUE(eventually([&] { return s.json(get("/v1/models/b"))["status"]["value"] == "loaded"; }));
  EXPECT_EQ(code_of(s.ask(post("/models/load", Json{{"model", "x"}}))), "model_not_found");
  EXPECT_EQ(code_of(s.ask(post("/models/unload", Json::object()))), "missing_required_parameter");
  EXPECT_EQ(code_of(s.ask(post("/sleep", Json::object(), "Origin: http://evil.example\r\n"))),
      "origin_not_allowed");
}

TEST(PoolServer, OllamasKeepAliveUnloads) {
  PoolServer s;
  s.ask(post("/api/generate", Json{{"model", "a"}, {"prompt", "Once"}, {"stream", false}, {"keep_alive", 0},
                                  {"options", {{"num_predict", 2}}}}));
  EXPECT_TRUE(eventually([&] { return s.plan.history.text() == "+a -a"; }));
}

TEST(PoolServer, MetricsHaveEachFamilyOnceWithEveryModel) {
  PoolServer s;
  EXPECT_NE(s.ask(get("/metrics")).body.find("cheetah_model_loaded{model_name=\"a\"} 0"), std::string::npos);
  s.ask(PoolServer::wanted("a"));
  s.ask(PoolServer::wanted("b"));
  const std::string text = s.ask(get("/metrics")).body;
  std::map<std::string, int> heads;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("# HELP")) ++heads[line];
  for (const auto& [head, count] : heads) EXPECT_EQ(count, 1) << head;
  for (const char* model : {"a", "b"})
    EXPECT_NE(text.find("vllm:num_requests_running{model_name=\"" + std::string(model)), std::string::npos);
}

TEST(Server, KeepsItsOneModel) {
  ServerFixture f;
  TestClient client(f.server.port());
  EXPECT_EQ(code_of(client.ask(post("/sleep", Json::object()))), "unsupported_operation");
  TestClient other(f.server.port());
  EXPECT_EQ(Json::parse(other.ask(get("/is_sleeping")).body)["is_sleeping"], false);
}

}  // namespace
}  // namespace cheetah
