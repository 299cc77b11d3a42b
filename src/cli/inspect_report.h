// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/json.h"
#include "model/traits.h"
#include "tensor/dtype.h"

namespace cheetah {

// What is known of a model from its headers alone.
struct ModelFacts {
  struct TypeShare {
    int64_t tensors = 0;
    int64_t elements = 0;
    int64_t bytes = 0;
  };
  std::string name;
  ModelTraits traits;
  std::map<DType, TypeShare> stored;  // empty for random: presets, which are in no file
  int64_t parameters = 0;
  int64_t weight_bytes = 0;
  DType main_type = DType::kF16;  // of most of the weights
};

std::string inspect_text(const ModelFacts& facts, std::optional<int64_t> memory);
Json inspect_json(const ModelFacts& facts, std::optional<int64_t> memory);

// Tokens of context each of `batch` sequences can have in `memory` beside weights of `dtype`, at most the
// model's positions; 0 when the weights alone do not fit.
int64_t context_that_fits(const ModelFacts& facts, DType dtype, int64_t batch, int64_t memory);

}  // namespace cheetah
