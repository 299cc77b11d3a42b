// SPDX-License-Identifier: MIT
#include "model/families/experts.h"
#include "model/families/family.h"

namespace cheetah {

FamilyModel read_glm4_moe(const Config& config) {
  constexpr double kTurning = 0.5;  // of a head
  FamilyModel model = read_base(config, {.kv_heads = 8, .max_positions = 131072, .eps = 1e-5});
  ModelTraits& traits = model.traits;
  traits.rope = read_partial_rope(config, traits.head_dim, 10000.0, kTurning);
  traits.qk_norm = config.boolean_or("use_qk_norm", false);
  if (config.boolean_or("attention_bias", false))
    model.names.qkv_bias = Presence::kYes;  // none on the way out

  read_routed_experts(config, {.experts = 128, .hidden = 1408, .shared = 1, .dense_layers = 1}, traits);
  read_corrected_routing(config, model);
  read_expert_groups(config, 1, 1, traits.moe);
  return model;
}

}  // namespace cheetah
