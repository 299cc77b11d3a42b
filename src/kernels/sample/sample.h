// SPDX-License-Identifier: MIT
#pragma once
// From a row of logits to a token. Pure: the random number is an argument.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace cheetah {

struct SamplingParams {
  float temperature = 0.f;  // 0: greedy
  int64_t top_k = 0;        // 0: all
  float top_p = 1.f;
  float min_p = 0.f;
  float repetition_penalty = 1.f;
  float frequency_penalty = 0.f;
  float presence_penalty = 0.f;
};

// The largest logit, ties to the lower index; NaN never wins.
int32_t argmax(std::span<const float> logits);

// log(sum(exp(logits))), computed about the maximum.
double log_sum_exp(std::span<const float> logits);

// Scratch reused from call to call, so that a step allocates nothing once warm.
struct SampleScratch {
  std::vector<float> logits;
  std::vector<std::pair<float, int32_t>> candidates;
  std::vector<int32_t> counts;  // of each id in the history; all zero between calls
};

// Applies penalties for `history`, then temperature, top-k, top-p, min-p, and picks by uniform in [0, 1).
int32_t sample(std::span<const float> logits, std::span<const int32_t> history, const SamplingParams& params,
    double uniform, SampleScratch& scratch);

}  // namespace cheetah
