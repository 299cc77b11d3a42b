// SPDX-License-Identifier: MIT
// Whole nodes in one process: what the cluster answers is what one engine answers.
#include <set>

#include "base/json.h"
#include "cluster/node/node_fixture.h"

namespace cheetah::cluster {
namespace {

TEST(OneProcessCluster, GreedyTokensAreThoseOfOneEngine) {
  Engine engine(small_model(), small_engine());
  OneProcess cluster(2, 2, always_remote());
  for (const int64_t prompt : {1, 17, 100, 300, 600}) {
    const GenerationRequest request = request_of(static_cast<uint64_t>(prompt), prompt);
    EXPECT_EQ(ask(cluster.router->backend(), request), ask(engine, request)) << prompt;
    EXPECT_EQ(ask(cluster.router->backend(), request), ask(engine, request)) << prompt << " again";
  }
  EXPECT_TRUE(cluster.counts_at_least(Counter::kSlabsImported, 5)) << cluster.told();
}

TEST(OneProcessCluster, ItsRouterTellsWorkersServicesAndCounts) {
  OneProcess cluster(1, 1, always_remote());
  ask(cluster.router->backend(), request_of(3, 40));
  const auto state = [&] { return parse_json(cluster.router->backend().cluster_state(), "state"); };
  EXPECT_TRUE(OneProcess::becomes([&] { return state()["counters"]["requests"] == 1; })) << cluster.told();
  std::set<std::string> roles;
  const Json last = state();
  for (const Json& worker : last["workers"]) {
    roles.insert(worker["role"].get<std::string>());
    EXPECT_EQ(worker["state"], "ready");
    EXPECT_EQ(worker["reachable"], true);
    EXPECT_GT(worker["pages_total"].get<int64_t>(), 0);
  }
  EXPECT_EQ(roles, (std::set<std::string>{"prefill", "decode"}));
  EXPECT_EQ(last["registry"]["up"], true);
  EXPECT_EQ(cluster.workers[0]->backend().cluster_state(), "");
}

TEST(OneProcessCluster, ChoicesSamplesAndGrammarsAreThoseOfOneEngine) {
  Engine engine(small_model(), small_engine());
  OneProcess cluster(1, 2, always_remote());
  GenerationRequest several = request_of(1, 200, 24);
  several.n = several.best_of = 3;
  several.sampling.temperature = 0.9f;
  several.seed = 1234;
  EXPECT_EQ(ask(cluster.router->backend(), several), ask(engine, several));
  GenerationRequest best = several;
  best.id = RequestId{2};
  best.n = 2;
  best.best_of = 4;
  EXPECT_EQ(ask(cluster.router->backend(), best), ask(engine, best));
  GenerationRequest guided = request_of(3, 150, 40);
  guided.ignore_eos = false;
  guided.grammar = grammars().json_schema(R"({"type":"object","properties":{"age":{"type":"integer"}},)"
                                          R"("required":["age"],"additionalProperties":false})");
  EXPECT_EQ(ask(cluster.router->backend(), guided), ask(engine, guided));
}

TEST(OneProcessCluster, ARequestWhoseWorkerGoesAwayGoesOnElsewhere) {
  Engine engine(small_model(), small_engine());
  OneProcess cluster(1, 2, always_remote());
  std::vector<GenerationRequest> requests;
  for (uint64_t id = 1; id <= 6; ++id) {
    requests.push_back(request_of(id, 120, 400));
    requests.back().n = requests.back().best_of = 1 + static_cast<int>(id % 2);
    requests.back().sampling.temperature = 0.8f;
    requests.back().seed = id;
  }
  std::vector<std::unique_ptr<Answer>> answers;
  for (const GenerationRequest& request : requests) {
    answers.push_back(std::make_unique<Answer>());
    cluster.router->backend().submit(request, answers.back()->sink());
  }
  answers[0]->wait_for_tokens(8);
  cluster.workers[1].reset();  // a decode worker, without a word
  for (size_t i = 0; i < requests.size(); ++i) {
    const Received& received = answers[i]->wait();
    EXPECT_EQ(received.error, "");
    EXPECT_EQ(tokens_of(received), ask(engine, requests[i])) << i;
  }
  cluster.workers.erase(cluster.workers.begin() + 1);
  EXPECT_TRUE(cluster.counts_at_least(Counter::kMigrations, 1)) << cluster.told();
}

TEST(OneProcessCluster, ADrainedWorkerHandsOverWhatItCannotFinish) {
  Engine engine(small_model(), small_engine());
  OneProcess cluster(1, 2, always_remote());
  const GenerationRequest request = request_of(1, 100, 800);
  Answer answer;
  cluster.router->backend().submit(request, answer.sink());
  answer.wait_for_tokens(4);
  // Whichever of the two has it: after the first is drained the other goes on, or has it already.
  EXPECT_TRUE(
      cluster.workers[1]->drain(std::chrono::milliseconds(1)) || cluster.workers[1]->drain(seconds(20)));
  const Received& received = answer.wait();
  EXPECT_EQ(received.error, "");
  EXPECT_EQ(tokens_of(received), ask(engine, request));
}

TEST(OneProcessCluster, WithoutAnyWorkerAClientIsToldSo) {
  OneProcess cluster(0, 0, always_remote());
  Answer answer;
  cluster.router->backend().submit(request_of(1, 20), answer.sink());
  EXPECT_NE(answer.wait().error, "");
}

TEST(OneProcessCluster, ACancelledRequestLeavesNothingBehind) {
  OneProcess cluster(1, 1, always_remote());
  Answer answer;
  cluster.router->backend().submit(request_of(7, 300, 700), answer.sink());
  answer.wait_for_tokens(2);
  cluster.router->backend().cancel(RequestId{7});
  answer.wait();
  EXPECT_TRUE(cluster.becomes_empty()) << cluster.told();
}

}  // namespace
}  // namespace cheetah::cluster
