// SPDX-License-Identifier: MIT
#pragma once
// From a row of logits to a token. Pure: the random number is an argument.
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/sample/dry.h"

namespace cheetah {

enum class Mirostat : uint8_t { kOff, kFirst, kSecond };

struct SamplingParams {
  float temperature = 0.f;  // 0: greedy
  int64_t top_k = 0;        // 0: all
  float top_p = 1.f;
  float min_p = 0.f;
  float repetition_penalty = 1.f;
  float frequency_penalty = 0.f;
  float presence_penalty = 0.f;
  DryParams dry = {};
  float top_n_sigma = 0.f;  // keep logits within so many standard deviations of the largest; 0: all
  // With this probability all but the least of the tokens with at least the threshold's share are taken out.
  float xtc_probability = 0.f;
  float xtc_threshold = 0.1f;
  // Draw at temperature - range where one token is certain, at temperature + range where all are alike.
  float dynatemp_range = 0.f;
  float dynatemp_exponent = 1.f;
  Mirostat mirostat = Mirostat::kOff;  // in place of the filters
  float mirostat_tau = 5.f;            // the surprise to hold, in bits
  float mirostat_eta = 0.1f;           // how fast

  bool uses_mirostat() const { return mirostat != Mirostat::kOff && temperature > 0.f; }
  bool cuts_sigma() const { return top_n_sigma > 0.f && temperature > 0.f && !uses_mirostat(); }
  bool uses_xtc() const { return xtc_probability > 0.f && xtc_threshold <= 0.5f && !uses_mirostat(); }
  bool uses_dynatemp() const { return dynatemp_range > 0.f && !uses_mirostat(); }
  bool operator==(const SamplingParams&) const = default;
};

// A kind of choosing that devices do not have.
inline bool needs_host(const SamplingParams& params) {
  return params.dry.is_on() || params.cuts_sigma() || params.uses_mirostat() ||
         (params.temperature > 0.f && (params.uses_xtc() || params.uses_dynatemp()));
}

// The largest logit, ties to the lower index; NaN never wins.
int32_t argmax(std::span<const float> logits);

// log(sum(exp(logits))), computed about the maximum.
double log_sum_exp(std::span<const float> logits);

// All tokens above -infinity, best first.
void collect_sorted(std::span<const float> logits, std::vector<std::pair<float, int32_t>>& candidates);

// Scratch reused from call to call, so that a step allocates nothing once warm.
struct SampleScratch {
  std::vector<std::pair<float, int32_t>> candidates;
};

// Random numbers of one token, in [0, 1).
struct SampleNumbers {
  double draw = 0;  // which token
  double xtc = 0;   // whether XTC takes tokens out
};

// Temperature, top-k, top-p, min-p, XTC, dynamic temperature, and a draw.
int32_t sample(std::span<const float> logits, const SamplingParams& params, const SampleNumbers& numbers,
    SampleScratch& scratch);

}  // namespace cheetah
