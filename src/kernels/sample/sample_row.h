// SPDX-License-Identifier: MIT
#pragma once
// One token to choose and what came of it: the rules of one request at one position, plain data for the CPU's
// sampler (row_sampler.h) and for the device's (sample_cuda.h).
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/sample/sample.h"

namespace cheetah {

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0.f;
};

struct GeneratedToken {
  int32_t id = 0;
  float logprob = 0.f;            // where it was asked for
  std::vector<TokenLogprob> top;  // best first
};

// The result depends on these fields, the logits and the last token alone, not on the batch.
struct SampleRow {
  int64_t logits = 0;  // which row of logits; several may choose from one
  SamplingParams sampling;
  double uniform = 0;       // [0, 1): what the request's random stream has at this token
  double xtc_uniform = 0;   // … and another, for XTC
  float mirostat_mu = 0.f;  // as the token before left it
  const DryBreakers* dry_breakers = nullptr;
  std::span<const int32_t> history;  // before the last token: the one whose logits these are
  int64_t num_generated = 0;         // of history and the last token, how many at the end were generated
  float typical_p = 1.f;
  std::span<const std::pair<int32_t, float>> logit_bias;
  std::span<const int32_t> allowed_ids;  // empty: all
  std::span<const uint64_t> mask;        // bit id: allowed; empty: all
  std::span<const int32_t> forbidden_ids;
  std::optional<int> top_logprobs;  // so many of the best beside the token's own; unset: no logprobs

  bool penalizes() const {
    return sampling.repetition_penalty != 1.f || sampling.frequency_penalty != 0.f ||
           sampling.presence_penalty != 0.f;
  }
  bool keeps_typical() const {
    return typical_p < 1.f && sampling.temperature > 0.f && !sampling.uses_mirostat();
  }
  bool changes_logits() const {
    return penalizes() || !logit_bias.empty() || !allowed_ids.empty() || !mask.empty() ||
           !forbidden_ids.empty() || sampling.dry.is_on() || sampling.cuts_sigma() || keeps_typical();
  }
  // Devices have the filters that most requests use.
  bool needs_host() const { return ::cheetah::needs_host(sampling) || keeps_typical(); }
};

// The random stream of XTC's numbers beside that of a choice's draws.
inline uint64_t xtc_stream(uint64_t draws) { return draws | uint64_t{1} << 32; }

struct SampledToken {
  GeneratedToken token;
  bool impossible = false;  // no token is allowed
  bool failed = false;      // out of memory
  float mirostat_mu = 0.f;  // for the request's next token
  bool not_finite = false;  // the logits have a NaN, +infinity, or nothing but -infinity: there is no token

  bool is_token() const { return !impossible && !failed && !not_finite; }
};

}  // namespace cheetah
