// SPDX-License-Identifier: MIT
#pragma once
// The samplers beside temperature, top-k, top-p and min-p, under llama.cpp's names.
#include <array>
#include <string_view>

#include "engine/request.h"
#include "serve/api/body.h"
#include "serve/api/fields.h"

namespace cheetah {

inline constexpr std::array<std::string_view, 14> kSamplerFields = {"dry_multiplier", "dry_base",
    "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers", "xtc_probability", "xtc_threshold",
    "top_n_sigma", "dynatemp_range", "dynatemp_exponent", "mirostat", "mirostat_tau", "mirostat_eta",
    "typical_p"};

void read_samplers(Fields& fields, GenerationRequest& request);

// What they are, under the same names.
void append_samplers(const GenerationRequest& request, OrderedJson& settings);

}  // namespace cheetah
