#pragma once
// How fast a model runs here: prompts one by one, then decode steps of several batch sizes over real caches.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/model.h"

namespace cheetah {

struct EngineBenchPlan {
  int64_t prompt_tokens = 512;
  int64_t new_tokens = 128;
  std::vector<int64_t> batches = {1};
  int64_t repeats = 3;

  int64_t max_batch() const;
  int64_t context() const { return prompt_tokens + new_tokens; }
  int64_t num_pages(int64_t page_tokens) const;  // that its KvPool needs
};

struct DecodeSamples {
  int64_t batch = 0;
  std::vector<double> step_seconds;  // every step of every repeat
};

struct EngineBenchSamples {
  std::vector<double> prompt_seconds;  // one a prompt
  std::vector<DecodeSamples> decode;
};

// Runs the plan. Tokens are seeded pseudo-random; each batch size continues the same prompts, greedily. The
// first prompt and the first step of each batch size warm up and are not counted. Calls `progress` with the
// share done.
EngineBenchSamples run_engine_bench(const Model& model, Runner& runner, KvPool& pool,
                                    const EngineBenchPlan& plan, const std::function<void(double)>& progress);

}  // namespace cheetah
