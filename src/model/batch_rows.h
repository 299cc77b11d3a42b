// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "model/model.h"

namespace cheetah {

// Where each row of a batch stands in its sequence, and which rows are wanted.
struct BatchRows {
  std::vector<int32_t> positions;       // [rows]
  std::vector<int32_t> uses_long_rope;  // [rows]: whether the row's sequence outgrew the first frequencies
  std::vector<int32_t> sequence;        // [rows]: index of the row's sequence
  std::vector<int32_t> wanted;          // those with logits, then those with hidden states
  bool wants_all = false;               // the logits of each row, in order

  // Throws Error for a token outside the vocabulary, unless its row is in `fed`, or a sequence longer than the model's
  // positions.
  void place(const ForwardBatch& batch, const ModelTraits& traits, std::span<const FedToken> fed = {});
};

}  // namespace cheetah
