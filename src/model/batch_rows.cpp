// SPDX-License-Identifier: MIT
#include "model/batch_rows.h"

#include "base/error.h"
#include "base/format.h"

namespace cheetah {

void BatchRows::place(const ForwardBatch& batch, const ModelTraits& traits, std::span<const FedToken> fed) {
  for (auto* list : {&positions, &uses_long_rope, &sequence, &wanted}) list->clear();
  for (size_t row = 0, passed = 0; row < batch.tokens.size(); ++row) {
    const int32_t token = batch.tokens[row];
    if (passed < fed.size() && fed[passed].row == static_cast<int64_t>(row))
      ++passed;
    else if (token < 0 || token >= traits.vocab)
      throw Error(format("token id {} is outside the vocabulary of {}", token, traits.vocab));
  }
  for (const AttentionSequence& each : batch.sequences) {
    CHEETAH_ASSERT(each.query_begin == std::ssize(positions), "sequences follow each other in the batch");
    if (traits.learned_positions && each.context_tokens > traits.max_positions)
      throw Error(format("a sequence of {} tokens is longer than the model's {} positions",
          each.context_tokens, traits.max_positions));
    const bool is_long =
        !traits.rope.long_inv_freq.empty() && each.context_tokens > traits.rope.original_context;
    for (int64_t at = each.context_tokens - each.query_count; at < each.context_tokens; ++at) {
      positions.push_back(static_cast<int32_t>(at));
      uses_long_rope.push_back(is_long);
      sequence.push_back(static_cast<int32_t>(&each - batch.sequences.data()));
    }
  }
  CHEETAH_ASSERT(positions.size() == batch.tokens.size(), "sequences cover the batch's tokens");
  wants_all = batch.hidden_rows.empty() && batch.logit_rows.size() == batch.tokens.size();
  for (const auto rows : {batch.logit_rows, batch.hidden_rows})
    for (const int64_t row : rows) {
      CHEETAH_ASSERT(row >= 0 && row < std::ssize(batch.tokens), "a wanted row is in the batch");
      wants_all = wants_all && row == std::ssize(wanted);
      wanted.push_back(static_cast<int32_t>(row));
    }
}

}  // namespace cheetah
