// SPDX-License-Identifier: MIT
#pragma once
// What scenarios share: requests that go into an engine, and when their tokens come out.
#include <cstdint>
#include <string>
#include <vector>

#include "base/mailbox.h"
#include "base/time.h"
#include "engine/engine.h"
#include "engine/scenario.h"

namespace cheetah {

std::vector<int32_t> random_tokens(int64_t count, int64_t vocab, uint64_t seed);
// Tokens per second of all streams, from the last one's first token to the first one's end. 0: there was no such time.
double decode_rate(const std::vector<RequestTrace>& traces);

// Sends requests and records when their tokens come. The engine's thread only posts; this one counts them.
class ScenarioLoad {
 public:
  explicit ScenarioLoad(Engine& engine) : engine_(engine), begin_(std::chrono::steady_clock::now()) {}

  size_t send(GenerationRequest request);  // which trace is its own
  size_t send(std::vector<int32_t> prompt, int64_t max_tokens);
  void cancel(size_t index) { engine_.cancel(id_of(index)); }

  // Counts arrivals until `enough()`. Throws when the engine refuses something, after the rest has ended: its events
  // come here as long as it lasts.
  template <class Enough>
  void run_until(const Enough& enough) {
    const auto limit = patience_ends();
    while (!enough()) look(limit);
  }
  void run_to_end() {
    run_until([this] { return num_open_ == 0; });
  }
  int64_t num_open() const { return num_open_; }
  const std::vector<RequestTrace>& traces() const { return traces_; }

 private:
  struct Arrival {
    size_t index = 0;
    double time_s = 0;
    std::vector<GeneratedToken> tokens;
    int64_t cached_tokens = 0;
    std::string error;
    bool done = false;
  };
  // Far from other people's.
  static RequestId id_of(size_t index) { return RequestId{(uint64_t{1} << 62) + index}; }
  static EngineTime patience_ends();
  double now_s() const { return seconds_since(begin_); }
  void look(EngineTime limit);
  void take_arrived();
  void take(const Arrival& arrival);

  Engine& engine_;
  EngineTime begin_;
  std::vector<RequestTrace> traces_;
  std::vector<Arrival> arrived_;
  int64_t num_open_ = 0;
  std::string error_;
  Mailbox<Arrival> inbox_;
};

}  // namespace cheetah
