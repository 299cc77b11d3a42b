// SPDX-License-Identifier: MIT
#include "model/families/family.h"

namespace cheetah {

FamilyModel read_mixtral(const Config& config) {
  FamilyModel model = read_base(config, {.kv_heads = 8, .max_positions = 131072, .eps = 1e-5});
  ModelTraits& traits = model.traits;
  traits.rope = read_rope(config, traits.head_dim, 1e6);
  set_all_windows(traits, config.window_or("sliding_window", 0));

  traits.moe.experts = config.size_or("num_local_experts", 8);
  traits.moe.top_k = config.integer_or("num_experts_per_tok", 2, 1, traits.moe.experts);
  traits.moe.expert_hidden = traits.ffn;
  traits.moe.normalize = true;
  for (LayerTraits& layer : traits.layers) layer.moe = true;

  WeightNames& names = model.names;
  names.moe_roots = {"block_sparse_moe.", "mlp."};
  names.expert_gate = "w1";
  names.expert_up = "w3";
  names.expert_down = "w2";
  return model;
}

}  // namespace cheetah
