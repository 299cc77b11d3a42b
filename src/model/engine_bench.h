// SPDX-License-Identifier: MIT
#pragma once
// How fast a model runs here: prompts, then decode steps of several batch sizes over real caches.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/model.h"

namespace cheetah {

struct EngineBenchPlan {
  int64_t context_tokens = 512;  // of each sequence, when decoding begins
  int64_t new_tokens = 128;
  std::vector<int64_t> batches = {1};
  int64_t prompts = 1;         // computed at once …
  int64_t prompt_tokens = 0;   // … of so many tokens; 0: as many as the context has
  int64_t chunk_tokens = 512;  // of prompts, in one step
  int64_t repeats = 3;

  int64_t prompt_length() const { return prompt_tokens > 0 ? prompt_tokens : context_tokens; }
  int64_t max_batch() const;
  int64_t max_positions() const;                 // of a sequence
  int64_t num_pages(int64_t page_tokens) const;  // that its KvPool needs
};

struct DecodeSamples {
  int64_t batch = 0;
  std::vector<double> step_seconds;  // every step of every repeat
};

struct EngineBenchSamples {
  std::vector<double> prompt_seconds;  // one for each time all prompts were computed
  std::vector<DecodeSamples> decode;
};

// Runs the plan. Tokens are seeded pseudo-random; each batch size continues the same contexts, greedily, a
// step ahead where the runner can. The first prompts and the first steps of each batch size warm up and are
// not counted. Calls `progress` with the share done; false ends the run with the samples there are.
EngineBenchSamples run_engine_bench(const Model& model, Runner& runner, KvPool& pool,
    const EngineBenchPlan& plan, const std::function<bool(double)>& progress);

}  // namespace cheetah
