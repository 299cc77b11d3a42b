// SPDX-License-Identifier: MIT
#pragma once
// Random generations under JSON schemas: are all of them valid, and what do the masks cost?
#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace cheetah {

struct ConstrainedPlan {
  int64_t generations = 1000;
  int64_t max_tokens = 700;
  float temperature = 1.f;
  uint64_t seed = 1;
};

struct ConstrainedResult {
  int64_t generations = 0;
  int64_t valid = 0;
  int64_t num_schemas = 0;
  int64_t tokens = 0;
  std::string first_failure;  // schema, text and what was wrong
  double step_seconds = 0, mask_seconds = 0;

  double mask_share() const { return step_seconds > 0 ? mask_seconds / step_seconds : 0; }
};

// The schemas in turn, as many requests at once as the queue takes. A model without a tokenizer gets a
// synthetic vocabulary of its size.
ConstrainedResult run_constrained(Engine& engine, const ConstrainedPlan& plan);

const std::vector<std::string>& constrained_schemas();

}  // namespace cheetah
