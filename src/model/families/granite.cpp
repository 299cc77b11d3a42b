// SPDX-License-Identifier: MIT
#include "model/families/family.h"

namespace cheetah {

FamilyModel read_granite(const Config& config) {
  FamilyModel model = read_llama(config);
  ModelTraits& traits = model.traits;
  traits.embedding_scale = static_cast<float>(config.positive_or("embedding_multiplier", 1.0));
  traits.residual_scale = static_cast<float>(config.positive_or("residual_multiplier", 1.0));
  traits.attention_scale = static_cast<float>(config.positive_or("attention_multiplier", 1.0));
  traits.logit_scale = static_cast<float>(1.0 / config.positive_or("logits_scaling", 1.0));
  return model;
}

}  // namespace cheetah
