// SPDX-License-Identifier: MIT
#pragma once
// Mirostat (Basu et al., 2021): holds the surprise of a text near a target by cutting off what is too surprising,
// more or less of it as the tokens before were.
#include <span>

#include "kernels/sample/scan.h"

namespace cheetah {

struct SamplingParams;

// What `mu` is before the first token.
float first_mirostat_mu(const SamplingParams& params);

struct MirostatDraw {
  int32_t id = 0;
  float mu = 0.f;  // for the next token
};
// `candidates`: every token that may come, best first, at least one. Draws by uniform in [0, 1).
MirostatDraw draw_mirostat(
    std::span<const Candidate> candidates, const SamplingParams& params, float mu, double uniform);

}  // namespace cheetah
