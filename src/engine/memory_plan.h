// SPDX-License-Identifier: MIT
#pragma once
// What fits: context, pages and batch from the memory that is free.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine_config.h"

namespace cheetah {

struct MemoryRow {
  std::string name;
  int64_t bytes = 0;
  std::string note;
};

struct MemoryPlan {
  EngineConfig config;  // no zeros left but threads
  KvLayout layout;
  int64_t num_pages = 0;
  std::vector<MemoryRow> rows;  // for the person who starts the engine
};

// `unread_weight_bytes`: of the mapped weights, what will still take memory. A context that does not fit is
// cut. Throws Error when not even one page does, and for a config that cannot be.
MemoryPlan plan_memory(
    const ModelTraits& traits, int64_t unread_weight_bytes, const EngineConfig& config, int64_t free_bytes);
// For a loaded model and this machine.
MemoryPlan plan_memory(const Model& model, const EngineConfig& config);

}  // namespace cheetah
