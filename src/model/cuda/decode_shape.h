// SPDX-License-Identifier: MIT
#pragma once
// The few shapes that decode steps are filled up to, so that a recorded graph fits the next step too. Pure.
#include <cstdint>
#include <optional>

#include "model/model.h"

namespace cheetah {

struct DecodeShape {
  int64_t rows = 0;     // as many as the step is filled up to
  int64_t context = 0;  // no sequence is longer
  bool operator==(const DecodeShape&) const = default;
};

// Of a step that continues every sequence by one token and wants the logits of all of them, in order; none of
// any other step, or one too large to be worth a graph.
std::optional<DecodeShape> decode_shape(const ForwardBatch& batch);

}  // namespace cheetah
