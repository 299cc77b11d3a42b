// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "base/json.h"
#include "model/generation.h"

namespace cheetah {

// "prompt 12 tokens (4 reused) at 480.1 tokens/s, 200 tokens at 71.3 tokens/s, end".
std::string timings_text(const GenerationResult& result);
Json timings_json(const GenerationResult& result);

}  // namespace cheetah
