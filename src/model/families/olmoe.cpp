// SPDX-License-Identifier: MIT
#include "model/families/family.h"

namespace cheetah {

// Norms cover all heads of q and k at once, as in OLMo 2, but stand before attention and MLP.
FamilyModel read_olmoe(const Config& config) {
  FamilyModel model = read_base(config, {.max_positions = 4096, .eps = 1e-5});
  ModelTraits& traits = model.traits;
  traits.rope = read_rope(config, traits.head_dim, 10000.0);
  traits.qk_norm_whole = true;
  if (config.has("clip_qkv")) traits.qkv_clip = static_cast<float>(config.positive("clip_qkv"));
  read_attention_bias(config, false, model.names);

  traits.moe.experts = config.size_or("num_experts", config.size_or("num_local_experts", 64));
  traits.moe.top_k = config.integer_or("num_experts_per_tok", 8, 1, traits.moe.experts);
  traits.moe.expert_hidden = traits.ffn;
  traits.moe.normalize = config.boolean_or("norm_topk_prob", false);
  for (LayerTraits& layer : traits.layers) layer.moe = true;
  return model;
}

}  // namespace cheetah
