// SPDX-License-Identifier: MIT
#pragma once
// What a model costs, from its traits alone: parameters, operations and bytes. The same numbers for inspect,
// bench and the planner.
#include <cstdint>

#include "model/traits.h"
#include "tensor/dtype.h"

namespace cheetah {

struct ParameterCount {
  int64_t embedding = 0;  // token and position tables
  int64_t attention = 0;  // all layers
  int64_t mlp = 0;        // all layers, every expert
  int64_t norms = 0;
  int64_t head = 0;        // 0 when it is the embedding table
  int64_t active_mlp = 0;  // of mlp, what one token goes through

  int64_t total() const { return embedding + attention + mlp + norms + head; }
};
// Biases, which are a few thousandths of a model, are left out.
ParameterCount parameter_count(const ModelTraits& traits);

// Operations (a multiply-add is two) to compute one new token after `context` cached ones, with its logits.
double decode_flops(const ModelTraits& traits, int64_t context);

// Operations for a whole prompt of `tokens`, with logits for the last only.
double prompt_flops(const ModelTraits& traits, int64_t tokens);

// Bytes of keys and values that one token's attention reads after `context` cached ones: windowed layers read
// only their window.
double kv_read_bytes(const ModelTraits& traits, DType dtype, int64_t context);

// Bytes of a decode step's weights when every matrix has `dtype`: one embedding row, active experts only.
double decode_weight_bytes(const ModelTraits& traits, DType dtype);
double all_weight_bytes(const ModelTraits& traits, DType dtype);

}  // namespace cheetah
