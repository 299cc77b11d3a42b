// SPDX-License-Identifier: MIT
#pragma once
// A model whose every token and every page is known beforehand: token i of a choice is a hash of prompt,
// seed, choice and i; a page's bytes are a hash of the tokens up to its end. So any token that is lost,
// doubled, out of order or foreign, and any page that is damaged or stale, shows.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/request.h"

namespace cheetah::cluster::simulation {

inline constexpr int64_t kPageTokens = 4;

uint64_t mix(uint64_t a, uint64_t b);

// What each choice of a request says, whichever worker answers it.
struct OracleChoice {
  std::vector<int32_t> tokens;
  FinishReason finish = FinishReason::kStop;
};
std::vector<OracleChoice> oracle_answer(const GenerationRequest& request);
std::string oracle_text(std::span<const int32_t> tokens);
float oracle_embedding(const GenerationRequest& request);

// Of each whole page of the tokens: its name (which prefix it ends) and what its bytes must be.
std::vector<uint64_t> page_names(std::span<const int32_t> tokens, const std::string& salt);
inline uint64_t page_bytes(uint64_t name) { return mix(name, 0xc0ffee); }
uint64_t checksum(std::span<const uint64_t> pages);

}  // namespace cheetah::cluster::simulation
