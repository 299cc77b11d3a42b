// SPDX-License-Identifier: MIT
#pragma once
// The engine of a simulated worker: speaks with the oracle's tokens, keeps a prefix cache of pages, and looks
// whether the pages it uses are what they must be.
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cluster/core/worker_ports.h"
#include "testing/cluster/oracle.h"
#include "testing/cluster/simulation.h"

namespace cheetah::cluster::simulation {

struct EngineTimes {
  double prefill_ms_per_token = 0.4;
  double token_ms = 12;
  int64_t cache_pages = 96;
  double failure = 0;  // probability that a request fails with an internal error
};

class OracleEngine {
 public:
  // `later` runs something on this worker's process after a delay, if the process still lives then.
  using Later = std::function<void(Duration, std::function<void()>)>;
  using Tell = std::function<void(WorkerInput)>;
  using Clock = std::function<Time()>;  // the process's own
  OracleEngine(Simulation& simulation, const EngineTimes& times, Later later, Tell tell, Clock clock)
      : simulation_(simulation),
        times_(times),
        later_(std::move(later)),
        tell_(std::move(tell)),
        clock_(std::move(clock)) {}

  void submit(const EngineSubmit& submit);
  void execute(const EngineCancel& output);
  void execute(const EnginePause& output);

  int64_t cached_tokens(const std::vector<int32_t>& tokens, const std::string& salt) const;
  // False: the cache is full of pinned pages.
  bool import_pages(RequestKey key, std::span<const uint64_t> names, std::span<const uint64_t> bytes);
  void execute(const Unpin& output) { pins_.erase(output.key); }

  void start_export(const StartExport& wanted);
  void release_export(RequestKey key) { exports_.erase(key); }

  void set_failure(double probability) { times_.failure = probability; }
  std::vector<RequestKey> running() const;
  int64_t num_running() const { return static_cast<int64_t>(running_.size()); }
  int64_t num_pins() const { return static_cast<int64_t>(pins_.size()); }
  int64_t num_exports() const { return static_cast<int64_t>(exports_.size()); }
  WorkerLoad load() const;

 private:
  struct Running {
    EngineSubmit submit;
    std::vector<OracleChoice> answer;
    std::vector<size_t> said{};  // tokens of each choice
    std::vector<bool> finished{};
    Time arrived{}, scheduled{};
    int64_t cached = 0;
    bool paused = false;
    uint64_t step = 0;  // steps planned under another number are void
  };
  void plan_step(RequestKey key, Duration delay);
  void step(RequestKey key);
  void end_all(RequestKey key, FinishReason finish, ErrorKind kind);
  void say(RequestKey key, Running& running, size_t choice, size_t num_tokens);
  void say_at_once(RequestKey key, Running& running);
  void check_cached_pages(Running& running);
  void store(std::span<const uint64_t> names);
  bool make_room();
  void export_step(RequestKey key, int64_t ready, int64_t end);

  Simulation& simulation_;
  EngineTimes times_;
  Later later_;
  Tell tell_;
  Clock clock_;
  std::map<RequestKey, Running> running_;
  std::map<uint64_t, uint64_t> cache_;  // name to bytes
  std::map<RequestKey, std::set<uint64_t>> pins_;
  std::set<RequestKey> exports_;
};

}  // namespace cheetah::cluster::simulation
