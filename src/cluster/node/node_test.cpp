// Whole nodes in one process: what the cluster answers is what one engine answers.
#include "cluster/node/node.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/format.h"
#include "cluster/node/launch.h"
#include "engine/core_fixture.h"
#include "serve/api/grammar_cache.h"

namespace cheetah::cluster {
namespace {

using std::chrono::seconds;

EngineConfig small_engine() {
  EngineConfig config;
  config.threads = 1;
  config.kv_bytes = 8 << 20;
  config.max_context = 1024;
  config.max_sequences = 8;
  return config;
}

GrammarCache& grammars() {
  static GrammarCache cache(*small_model());
  return cache;
}

// Waits for the end of a request, however long a loaded machine takes.
class Answer {
 public:
  EventSink sink() {
    return [this](GenerationEvent&& event) { inbox_.post(std::move(event)); };
  }
  const Received& wait() {
    EXPECT_TRUE(until([&] { return received_.done; })) << "no answer in time";
    return received_;
  }
  void wait_for_tokens(size_t count) {
    EXPECT_TRUE(until([&] { return received_.choices[0].tokens.size() >= count || received_.done; }));
  }

 private:
  bool until(const std::function<bool()>& enough) {
    const Time limit = std::chrono::steady_clock::now() + seconds(60);
    std::vector<GenerationEvent> batch;
    while (!enough() && inbox_.wait_until(limit)) {
      inbox_.take_all(batch);
      for (GenerationEvent& event : batch) received_.add(std::move(event));
    }
    return enough();
  }

  Received received_;
  Mailbox<GenerationEvent> inbox_;
};

GenerationRequest request_of(uint64_t id, int64_t prompt_tokens, int64_t max_tokens = 16) {
  GenerationRequest request;
  request.id = RequestId{id};
  for (int64_t i = 0; i < prompt_tokens; ++i)
    request.prompt.push_back(static_cast<int32_t>((i * 37 + static_cast<int64_t>(id) * 11) % 200 + 5));
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.ignore_eos = true;
  return request;
}

std::map<int, std::vector<int32_t>> tokens_of(const Received& received) {
  std::map<int, std::vector<int32_t>> tokens;
  for (const auto& [index, choice] : received.choices) tokens[index] = choice.tokens;
  return tokens;
}

std::map<int, std::vector<int32_t>> ask(GenerationBackend& backend, const GenerationRequest& request) {
  Answer answer;
  backend.submit(request, answer.sink());
  const Received& received = answer.wait();
  EXPECT_EQ(received.error, "");
  return tokens_of(received);
}

class OneProcess {
 public:
  OneProcess(int num_prefill, int num_decode, const PolicyConfig& policy) {
    LaunchOptions options;
    options.policy = policy;
    options.worker.min_remote_tokens = 32;
    options.role = Role::kPrefill;
    for (int i = 0; i < num_prefill; ++i) workers.push_back(launch(options));
    options.role = Role::kDecode;
    for (int i = 0; i < num_decode; ++i) workers.push_back(launch(options));
    options.role = Role::kRouter;
    router = launch(options);
    EXPECT_TRUE(router->wait_for_workers(num_decode, seconds(30))) << router->describe();
  }
  // Numbers are as old as a heartbeat.
  bool counts_at_least(Counter counter, int64_t least) const {
    const Time until = std::chrono::steady_clock::now() + seconds(30);
    while (counted(counter) < least && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return counted(counter) >= least;
  }
  bool becomes_empty() const {
    const auto busy = [this] {
      int64_t left = router->status().requests;
      for (const auto& worker : workers) {
        const WorkerCore::Books books = worker->status().books;
        left += books.requests + books.jobs + books.reservations + books.exports;
      }
      return left > 0;
    };
    const Time until = std::chrono::steady_clock::now() + seconds(30);
    while (busy() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return !busy();
  }
  std::string told() const {
    std::string text = router->describe() + router->backend().explain_last(100);
    for (size_t i = 0; i < static_cast<size_t>(Counter::kCount); ++i)
      text += format("{} {}\n", counter_name(static_cast<Counter>(i)), counted(static_cast<Counter>(i)));
    return text;
  }
  int64_t counted(Counter counter) const {
    int64_t sum = router->status().counters[static_cast<size_t>(counter)];
    for (const auto& worker : workers) sum += worker->status().counters[static_cast<size_t>(counter)];
    return sum;
  }

 private:
  std::unique_ptr<Node> launch(const LaunchOptions& options) {
    return launch_node(options, {small_model(), grammars(), nullptr}, small_engine(), &world_);
  }
  InProcessWorld world_;

 public:
  std::vector<std::unique_ptr<Node>> workers;
  std::unique_ptr<Node> router;
};

PolicyConfig always_remote() {
  PolicyConfig policy;
  policy.routing.offload_policy = OffloadPolicy::kAlways;
  policy.routing.worth.enabled = false;
  return policy;
}

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
  EXPECT_TRUE(cluster.workers[1]->drain(std::chrono::milliseconds(1)) ||
              cluster.workers[1]->drain(seconds(20)));
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
