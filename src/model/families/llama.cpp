// SPDX-License-Identifier: MIT
#include "model/families/family.h"

namespace cheetah {

FamilyModel read_llama(const Config& config) {
  FamilyModel model = read_base(config, {});
  model.traits.rope = read_rope(config, model.traits.head_dim, 10000.0);
  read_attention_bias(config, false, model.names);
  if (config.boolean_or("mlp_bias", false)) model.names.mlp_bias = Presence::kYes;
  return model;
}

}  // namespace cheetah
