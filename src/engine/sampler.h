#pragma once
// From rows of logits to tokens, each row by its own request's rules.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/request.h"
#include "kernels/context.h"
#include "kernels/sample/sample.h"

namespace cheetah {

// One token to choose. The result depends on these fields alone, not on the batch or the threads.
struct SampleJob {
  std::span<const float> logits;  // [vocab] f32; several choices may share a row
  const GenerationRequest* request = nullptr;
  std::span<const int32_t> history;  // prompt and generated tokens
  int64_t num_generated = 0;         // of history; also where the random stream stands
  int choice = 0;                    // which random stream
  std::span<const uint64_t> mask;    // bit id: allowed by the grammar; empty: all
  std::span<const int32_t> end_ids;  // may not come before min_tokens

  GeneratedToken token;     // the result
  bool impossible = false;  // no token is allowed
  bool failed = false;      // out of memory
};

// The logprob of `id` and the `top` best ids, of the model's own distribution.
void fill_logprobs(std::span<const float> logits, int32_t id, int top, GeneratedToken& token);

// Reused from step to step; one call at a time.
class Sampler {
 public:
  explicit Sampler(int num_threads) : scratch_(static_cast<size_t>(num_threads)) {}
  void run(std::span<SampleJob> jobs, ThreadPool& threads);

 private:
  struct Scratch {
    SampleScratch sample;
    std::vector<float> logits;
    std::vector<int32_t> counts;  // all zero between calls
    std::vector<std::pair<float, int32_t>> order;
  };
  static void sample_one(SampleJob& job, Scratch& scratch);
  static void choose(SampleJob& job, Scratch& scratch);
  static void penalize(const SampleJob& job, Scratch& scratch);
  static void forbid(const SampleJob& job, std::vector<float>& logits);
  static void keep_typical(float temperature, float mass, Scratch& scratch);

  std::vector<Scratch> scratch_;  // one a worker
};

}  // namespace cheetah
