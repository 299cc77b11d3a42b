// SPDX-License-Identifier: MIT
#pragma once
// The texts that end a repetition, as token sequences of one vocabulary.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/sample/dry.h"
#include "model/tokenizer/tokenizer.h"

namespace cheetah {

// What DRY does not cross unless a request says otherwise: llama.cpp's list.
inline const std::vector<std::string> kDryBreakers = {"\n", ":", "\"", "*"};

// Tokens whose text holds a breaker, and those whose text ends in the beginning of one, followed by its rest.
std::shared_ptr<const DryBreakers> make_dry_breakers(
    const Tokenizer& tokenizer, std::span<const std::string> texts);

}  // namespace cheetah
