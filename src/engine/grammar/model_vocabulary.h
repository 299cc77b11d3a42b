// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/grammar/vocabulary.h"
#include "model/tokenizer/tokenizer.h"

namespace cheetah {

// The vocabulary of a model: the bytes each token adds to a text that has already begun. Special tokens stand
// for no text. `num_logits` is how many ids the model scores, often more than the tokenizer has. Decodes
// every token once, so it belongs into loading. Shared: by every grammar compiled for the model.
std::shared_ptr<const TokenVocabulary> make_model_vocabulary(
    const Tokenizer& tokenizer, int64_t num_logits, std::vector<int32_t> eos_ids);

}  // namespace cheetah
