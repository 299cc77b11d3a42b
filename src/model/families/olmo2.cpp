// SPDX-License-Identifier: MIT
#include "model/families/family.h"

namespace cheetah {

// Norms stand after attention and MLP, and cover all heads of q and k at once.
FamilyModel read_olmo2(const Config& config) {
  FamilyModel model = read_base(config, {.eps = 1e-5});
  ModelTraits& traits = model.traits;
  traits.rope = read_rope(config, traits.head_dim, 10000.0);
  traits.pre_norm = false;
  traits.post_norm = true;
  traits.qk_norm_whole = true;
  read_attention_bias(config, false, model.names);

  WeightNames& names = model.names;
  names.attention_in.clear();
  names.mlp_in.clear();
  names.attention_out = "post_attention_layernorm";
  names.mlp_out = "post_feedforward_layernorm";
  return model;
}

}  // namespace cheetah
