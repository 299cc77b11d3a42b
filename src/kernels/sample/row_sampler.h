// SPDX-License-Identifier: MIT
#pragma once
// From rows of logits to tokens on the CPU, each row by its own request's rules. What a device does is held
// to this.
#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "kernels/sample/sample_row.h"

namespace cheetah {

// The logprob of `id` and the `top` best ids, of the model's own distribution.
void fill_logprobs(std::span<const float> logits, int32_t id, int top, GeneratedToken& token);

struct SampleBatch {
  std::span<const SampleRow> rows;
  std::span<const float> logits;         // [count, vocab] f32; SampleRow::logits counts in it
  std::span<const int32_t> last_tokens;  // [count]: whose logits they are
  std::span<SampledToken> sampled;       // as rows
};

// Reused from step to step; one call at a time.
class RowSampler {
 public:
  explicit RowSampler(int num_threads) : scratch_(static_cast<size_t>(num_threads)) {}
  void run(const SampleBatch& batch, ThreadPool& threads);

  // One row, of which `logits` are: what run() does for each.
  struct Scratch {
    SampleScratch sample;
    std::vector<float> logits;
    std::vector<int32_t> counts;  // all zero between calls
    std::vector<std::pair<float, int32_t>> order;
    std::vector<int32_t> tokens;
    DryScratch dry;
  };
  struct Job {
    const SampleRow& row;
    std::span<const float> logits;
    int32_t last_token;
    SampledToken& sampled;
  };
  static void sample_one(const Job& job, Scratch& scratch);

 private:
  static void choose(const Job& job, Scratch& scratch);
  static void draw(const Job& job, std::span<const float> logits, Scratch& scratch);
  static void penalize(const Job& job, Scratch& scratch);
  static void break_repetition(const Job& job, Scratch& scratch);
  static void forbid(const SampleRow& row, std::vector<float>& logits);
  static void keep_within_sigma(float deviations, std::vector<float>& logits);
  static void keep_typical(float temperature, float mass, Scratch& scratch);

  std::vector<Scratch> scratch_;  // one per worker
};

}  // namespace cheetah
