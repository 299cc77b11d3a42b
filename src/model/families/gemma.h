// SPDX-License-Identifier: MIT
#pragma once
#include "model/families/config.h"

namespace cheetah {

// What the generations share: four norms a layer with weights stored less one, a scaled embedding, soft caps.
FamilyModel read_gemma_base(const Config& config, int64_t default_vocab, int64_t default_positions);

}  // namespace cheetah
