// SPDX-License-Identifier: MIT
#pragma once
// Memory before anything is loaded: of one process, and of those of a machine that start at once, each of which would
// take what is free for itself.
#include <cstdint>
#include <string>

#include "cli/cluster.h"
#include "cli/engine_options.h"
#include "engine/memory_plan.h"
#include "model/traits.h"

namespace cheetah {

// A model's weights as they will be held, from its files' headers alone.
struct StoredWeights {
  ModelTraits traits;
  int64_t bytes = 0;
  bool mapped = false;  // processes share them
};
StoredWeights stored_weights(const EngineOptions& engine);
MemoryPlan plan_before_loading(const EngineOptions& engine, const EngineConfig& config);

struct MemoryShare {
  int64_t free_bytes = 0;
  int64_t shared_bytes = 0;  // taken once, by all together: mapped weights
  int64_t own_bytes = 0;     // taken by every process, routers too: weights of its own
  int workers = 1, others = 0;
};
// Of keys and values in each worker, so that all fit.
int64_t kv_bytes_each(const ModelTraits& traits, const EngineConfig& config, const MemoryShare& share);

// For the workers of one role; 0: their flags say so themselves. Throws UsageError for flags that
// cheetah serve does not know.
int64_t kv_bytes_for(const UpOptions& options, const std::string& flags);
std::string memory_text(int64_t prefill_kv_bytes, int64_t decode_kv_bytes, const UpOptions& options);

}  // namespace cheetah
