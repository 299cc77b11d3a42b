// SPDX-License-Identifier: MIT
#pragma once
// What a request wants of its prompt beside a token: the logprobs of its tokens, or an embedding.
#include <span>

#include "engine/step_batch.h"

namespace cheetah {

// Adds what a step computed of it. `logits`: the rows read on the host, `vocab` numbers each.
void collect_prompt_logprobs(const StepWork& work, std::span<const float> logits, int64_t vocab);
// `hidden`: rows of `width` numbers. With the prompt's last token the embedding is complete.
void collect_hidden(const StepWork& work, std::span<const float> hidden, int64_t width);

}  // namespace cheetah
