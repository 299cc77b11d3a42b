// SPDX-License-Identifier: MIT
#pragma once
// For tests: whole nodes in one process, and an engine's answers to compare theirs with.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/format.h"
#include "cluster/node/launch.h"
#include "cluster/node/node.h"
#include "engine/core_fixture.h"
#include "engine/grammar/grammar_cache.h"
#include "engine/tags/cluster_times.h"

namespace cheetah::cluster {

using std::chrono::seconds;

inline EngineConfig small_engine() {
  EngineConfig config;
  config.threads = 1;
  config.kv_bytes = 8 << 20;
  config.max_context = 1024;
  config.max_sequences = 8;
  return config;
}

inline GrammarCache& grammars() {
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
  const ClusterTimes* times() const { return times_.get(); }  // when all has come
  void wait_for_tokens(size_t count) {
    EXPECT_TRUE(until([&] { return received_.choices[0].tokens.size() >= count || received_.done; }));
  }

 private:
  bool until(const std::function<bool()>& enough) {
    const Time limit = std::chrono::steady_clock::now() + seconds(60);
    std::vector<GenerationEvent> batch;
    while (!enough() && inbox_.wait_until(limit)) {
      inbox_.take_all(batch);
      for (GenerationEvent& event : batch) {
        if (auto times = cluster_times_of(event)) times_ = std::move(times);
        received_.add(std::move(event));
      }
    }
    return enough();
  }

  Received received_;
  SharedClusterTimes times_;
  Mailbox<GenerationEvent> inbox_;
};

inline GenerationRequest request_of(uint64_t id, int64_t prompt_tokens, int64_t max_tokens = 16) {
  GenerationRequest request;
  request.id = RequestId{id};
  for (int64_t i = 0; i < prompt_tokens; ++i)
    request.prompt.push_back(static_cast<int32_t>((i * 37 + static_cast<int64_t>(id) * 11) % 200 + 5));
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.ignore_eos = true;
  return request;
}

inline std::map<int, std::vector<int32_t>> tokens_of(const Received& received) {
  std::map<int, std::vector<int32_t>> tokens;
  for (const auto& [index, choice] : received.choices) tokens[index] = choice.tokens;
  return tokens;
}

inline std::map<int, std::vector<int32_t>> ask(GenerationBackend& backend, const GenerationRequest& request) {
  Answer answer;
  backend.submit(request, answer.sink());
  const Received& received = answer.wait();
  EXPECT_EQ(received.error, "");
  return tokens_of(received);
}

// What the nodes of a test are; both kinds of workers may differ.
struct OneProcessSetting {
  int num_prefill = 1, num_decode = 1;
  PolicyConfig policy = {};
  EngineConfig prefill = small_engine(), decode = small_engine();
  std::optional<DType> transfer_dtype = {};
  std::shared_ptr<const Model> model = small_model();  // shared by the nodes
};

class OneProcess {
 public:
  OneProcess(int num_prefill, int num_decode, const PolicyConfig& policy)
      : OneProcess(
            OneProcessSetting{.num_prefill = num_prefill, .num_decode = num_decode, .policy = policy}) {}
  explicit OneProcess(const OneProcessSetting& setting)
      : model_(setting.model), grammars_(std::make_unique<GrammarCache>(*model_)) {
    LaunchOptions options;
    options.policy = setting.policy;
    options.transfer_dtype = setting.transfer_dtype;
    options.worker.min_remote_tokens = 32;
    // A loaded machine is slow, not broken.
    options.worker.space_wait = options.worker.claim_wait = options.worker.stall_limit = seconds(30);
    options.role = Role::kPrefill;
    for (int i = 0; i < setting.num_prefill; ++i) workers.push_back(launch(options, setting.prefill));
    options.role = Role::kDecode;
    for (int i = 0; i < setting.num_decode; ++i) workers.push_back(launch(options, setting.decode));
    options.role = Role::kRouter;
    router = launch(options, setting.decode);
    const int64_t all = setting.num_prefill + setting.num_decode;
    EXPECT_TRUE(becomes([&] { return num_ready() == all; })) << router->describe();
  }
  // Numbers are as old as a heartbeat.
  static bool becomes(const std::function<bool()>& done) {
    const Time until = std::chrono::steady_clock::now() + seconds(30);
    while (!done() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return done();
  }
  bool counts_at_least(Counter counter, int64_t least) const {
    return becomes([&] { return counted(counter) >= least; });
  }
  bool becomes_empty() const {
    return becomes([this] {
      int64_t left = router->status().requests;
      for (const auto& worker : workers) {
        const WorkerCore::Outstanding outstanding = worker->status().outstanding;
        left += outstanding.requests + outstanding.jobs + outstanding.reservations + outstanding.exports;
      }
      return left == 0;
    });
  }
  int64_t num_ready() const {
    return std::ranges::count_if(
        router->status().workers, [](const auto& known) { return known.second.reachable(); });
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
  std::unique_ptr<Node> launch(const LaunchOptions& options, const EngineConfig& engine) {
    return launch_node(options, {model_, *grammars_}, engine, &world_);
  }
  std::shared_ptr<const Model> model_;
  std::unique_ptr<GrammarCache> grammars_;
  InProcessCluster world_;

 public:
  std::vector<std::unique_ptr<Node>> workers;
  std::unique_ptr<Node> router;
};

inline PolicyConfig always_remote() {
  PolicyConfig policy;
  policy.routing.offload_policy = OffloadPolicy::kAlways;
  policy.routing.worth.enabled = false;
  return policy;
}

}  // namespace cheetah::cluster
