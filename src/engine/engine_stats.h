// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

#include "model/step.h"
#include "observe/histogram.h"

namespace cheetah {

// Tokens that were drafted and verified.
struct DraftStats {
  static constexpr size_t kPositions = 16;
  uint64_t drafts = 0, tokens = 0, accepted = 0;
  std::array<uint64_t, kPositions>
      accepted_at{};  // by the place in the draft; the last holds all further ones

  void add(int64_t drafted, int64_t num_accepted) {
    ++drafts;
    tokens += static_cast<uint64_t>(drafted);
    accepted += static_cast<uint64_t>(num_accepted);
    for (int64_t i = 0; i < num_accepted; ++i)
      ++accepted_at[std::min(static_cast<size_t>(i), kPositions - 1)];
  }
};

// A copy of the engine's counters as they stood between two steps.
struct EngineStats {
  int64_t running = 0, waiting = 0, swapped = 0;
  int64_t paused = 0;                                         // of those that run or wait
  int64_t pages_total = 0, pages_free = 0, pages_cached = 0;  // cached: held only by the prefix cache
  double kv_occupancy = 0;                                    // share of the pages that sequences hold
  double fragmentation = 0;  // of the places in those pages, the share without a token
  uint64_t steps = 0, prompt_tokens = 0, cached_prompt_tokens = 0, generated_tokens = 0;
  uint64_t prefix_queries = 0, prefix_hits = 0, preemptions = 0;  // queries and hits in tokens
  uint64_t finished_stop = 0, finished_length = 0, finished_cancelled = 0, finished_deadline = 0,
           finished_error = 0;
  uint64_t failed_steps = 0;                  // that the runner did not take or did not end well
  uint64_t nonfinite_outputs = 0;             // requests that ended because the model's output was not finite
  double drain_tokens_per_s = 0;              // recent rate at which work leaves the queue
  double step_seconds = 0, mask_seconds = 0;  // spent in steps; of that, on the masks of grammars
  double last_step_ms = 0;
  // What is still to do, and how long it takes: moving averages, 0 while nothing is known.
  int64_t prefill_tokens_left =
      0;  // of prompts, not computed yet; what the prefix cache has may be among them
  int64_t decode_tokens_left = 0;   // that requests may still generate
  double prefill_us_per_token = 0;  // of steps that compute prompts
  double decode_step_us = 0;        // of steps that only decode
  int64_t last_batch_tokens = 0, last_batch_sequences = 0;
  DraftStats drafts;
  GraphUse graphs;  // of the device's recorded decode steps
  Histogram ttft_s, itl_s, tpot_s, e2e_s, queue_s, prefill_s, decode_s, step_tokens, prompt_lengths,
      output_lengths;
};

// All zero, with the bounds of every histogram set: the same series from the first second on.
EngineStats empty_stats(int64_t max_step_tokens = 4096, int64_t max_length = 4096);

}  // namespace cheetah
