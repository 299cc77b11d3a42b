#pragma once
#include "model/families/config.h"

namespace cheetah {

// What both generations share: multi-head latent attention, dense first layers, shared experts.
FamilyModel read_deepseek_base(const Config& config);

}  // namespace cheetah
