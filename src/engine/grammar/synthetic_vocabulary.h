// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <memory>

#include "engine/grammar/vocabulary.h"

namespace cheetah {

// Shaped like the large byte-level vocabularies, for measurements without a tokenizer: mostly words with and
// without a leading space, some capitalised, with numbers, runs of punctuation and other scripts. At least
// 512 tokens; id 0 ends the text. Shared: by every grammar compiled for it.
std::shared_ptr<const TokenVocabulary> make_synthetic_vocabulary(size_t num_tokens);

}  // namespace cheetah
