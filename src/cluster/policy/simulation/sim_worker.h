// SPDX-License-Identifier: MIT
#pragma once
// One worker of the throughput simulation: continuous batching, prompts in chunks, the urgent first.
#include <cstdint>
#include <optional>
#include <vector>

#include "cluster/policy/predict.h"
#include "cluster/policy/simulation/step_model.h"
#include "cluster/policy/view.h"

namespace cheetah::cluster::throughput {

struct Work {  // of one request, wherever it is
  size_t request = 0;
  int32_t priority = 0;
  uint64_t order = 0;  // of arrival
  int64_t prompt = 0, prompt_left = 0, output_left = 0;
  int64_t context = 0;
  bool remote = false;    // its prompt is computed for another worker
  bool fresh = false;     // has its place and no token yet
  bool stepping = false;  // takes part in the step under way
};

struct StepDone {
  std::vector<Work> first_token;  // their prompt is done here: they have their first token
  std::vector<size_t> tokens;     // requests that got one more
  std::vector<size_t> finished;
  std::vector<Work> prefilled;  // for another worker
};

class SimWorker {
 public:
  SimWorker(WorkerId id, Role role, int64_t max_sequences, int64_t chunk_tokens, const StepModel& steps);

  void add_prompt(const Work& work) { insert(prompts_, work); }
  void add_ready(const Work& work) { insert(ready_, work); }  // its pages are here
  // Starts a step; how long it takes. nullopt: nothing to do.
  std::optional<double> begin_step();
  StepDone end_step();

  bool busy() const { return stepping_; }
  bool idle() const { return !stepping_ && prompts_.empty() && ready_.empty() && running_.empty(); }
  // The one whose chunk comes next; for a prefill worker that may pull a more urgent one.
  const Work* next_prompt() const { return prompts_.empty() ? nullptr : &prompts_.front(); }
  int64_t active() const { return static_cast<int64_t>(prompts_.size() + ready_.size() + running_.size()); }
  WorkerLoad load() const;
  int64_t preempted() const { return preempted_; }

  WorkerId id;
  Role role;
  WorkerState state = WorkerState::kReady;
  Time role_since{};
  Role next_role{};

 private:
  static void insert(std::vector<Work>& list, const Work& work);
  void admit_ready();
  bool make_room(const Work& for_work);
  int32_t choose_decoding();  // the least priority that takes part

  int64_t max_sequences_, chunk_tokens_;
  StepModel steps_;
  std::vector<Work> prompts_, ready_, running_;  // the first two by urgency
  int64_t chunk_ = 0;                            // of the step under way: tokens of a prompt,
  size_t chunk_of_ = 0;                          // and whose
  size_t decoding_ = 0;                          // sequences in the step under way
  double step_ms_ = 0;
  bool stepping_ = false;
  bool left_out_ = false;  // the less urgent, of the step before
  int64_t preempted_ = 0;
  Ema decode_step_ms_, prefill_token_ms_;
};

}  // namespace cheetah::cluster::throughput
