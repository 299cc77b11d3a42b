// SPDX-License-Identifier: MIT
#include "engine/engine_stats.h"

namespace cheetah {

EngineStats empty_stats(int64_t max_step_tokens, int64_t max_length) {
  EngineStats stats;
  for (Histogram* h : {&stats.ttft_s, &stats.itl_s, &stats.tpot_s, &stats.e2e_s, &stats.queue_s,
           &stats.prefill_s, &stats.decode_s})
    *h = Histogram(latency_bounds());
  stats.step_tokens = Histogram(token_bounds(max_step_tokens));
  stats.prompt_lengths = stats.output_lengths = Histogram(token_bounds(max_length));
  return stats;
}

}  // namespace cheetah
