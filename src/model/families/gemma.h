#pragma once
#include "model/families/config.h"

namespace cheetah {

// What the generations share: four norms a layer with weights stored less one, a scaled embedding, soft caps.
FamilyModel read_gemma_base(const Config& config);

}  // namespace cheetah
