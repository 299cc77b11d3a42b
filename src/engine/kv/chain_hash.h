// SPDX-License-Identifier: MIT
#pragma once
// Names for beginnings of text: the hash of all tokens up to a page's end. The same in every process, so that
// one can say what its cache holds and another can look for it. Never trusted for more than a hint: a cache
// compares tokens.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/traits.h"

namespace cheetah {

// Before the first page of texts under this salt.
uint64_t chain_begin(std::string_view salt);
// After one more page. Never 0.
uint64_t chain_after(uint64_t before, std::span<const int32_t> page);

// What the prefix cache keeps a request's text under: keys turned by longrope's long factors are others.
std::string prefix_salt(std::string_view cache_salt, bool long_factors);
// Of the whole pages of a text, as the prefix cache of any engine of this model names them.
std::vector<uint64_t> chain_hashes(const ModelTraits& traits, std::string_view cache_salt,
    std::span<const int32_t> tokens, int64_t page_tokens);

}  // namespace cheetah
