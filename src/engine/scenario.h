// SPDX-License-Identifier: MIT
#pragma once
// How the engine behaves under kinds of load, measured at its clients: by the events they get.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace cheetah {

// When a request was sent and when each of its tokens came, in seconds since the load began.
struct RequestTrace {
  double sent_s = 0;
  std::vector<double> token_s = {};
  std::vector<int32_t> tokens = {};
  int64_t prompt_tokens = 0;
  int64_t cached_tokens = 0;

  double ttft_s() const { return token_s.empty() ? 0 : token_s.front() - sent_s; }
};

// Times between tokens that arrived in [from_s, to_s).
std::vector<double> token_gaps(const std::vector<RequestTrace>& traces, double from_s, double to_s);

// `streams` requests at once.
struct StreamsPlan {
  int64_t streams = 16;
  int64_t prompt_tokens = 32;
  int64_t new_tokens = 128;
  uint64_t seed = 1;  // of the prompts
};
struct StreamsResult {
  std::vector<RequestTrace> traces;
  double tokens_per_s = 0;         // of the whole load, prompts included
  double decode_tokens_per_s = 0;  // while every stream decoded
};
StreamsResult run_streams(Engine& engine, const StreamsPlan& plan);

// A long prompt amid streams that decode.
struct LongPromptPlan {
  int64_t streams = 8;
  int64_t prompt_tokens = 32;
  int64_t long_prompt_tokens = 4096;
  int64_t calm_tokens = 64;  // of each stream before it comes
  uint64_t seed = 1;
};
struct LongPromptResult {
  std::vector<double> calm_gaps_s;       // between tokens of the streams before it came
  std::vector<double> disturbed_gaps_s;  // … and from then until its first token
  double long_ttft_s = 0;
  uint64_t steps = 0;  // of the engine, meanwhile
};
LongPromptResult run_long_prompt(Engine& engine, const LongPromptPlan& plan);

// Requests that begin alike, `concurrency` at a time.
struct PrefixPlan {
  int64_t requests = 32;
  int64_t concurrency = 4;
  int64_t shared_tokens = 1024;
  int64_t own_tokens = 112;
  int64_t new_tokens = 16;
  uint64_t seed = 1;
};
std::vector<RequestTrace> run_prefix_heavy(Engine& engine, const PrefixPlan& plan);

}  // namespace cheetah
