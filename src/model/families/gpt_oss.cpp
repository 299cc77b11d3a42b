// SPDX-License-Identifier: MIT
#include "model/families/family.h"

namespace cheetah {

FamilyModel read_gpt_oss(const Config& config) {
  FamilyModel model =
      read_base(config, {.kv_heads = 8, .head_dim = 64, .max_positions = 131072, .eps = 1e-5});
  ModelTraits& traits = model.traits;
  traits.rope = read_rope(config, traits.head_dim, 150000.0);
  traits.attention_sinks = true;
  const auto count = static_cast<int64_t>(traits.layers.size());
  std::vector<bool> alternating;
  for (int64_t i = 0; i < count; ++i) alternating.push_back(i % 2 == 0);
  set_windows(traits, read_sliding_layers(config, count).value_or(alternating),
      config.window_or("sliding_window", 128));

  traits.moe.experts = config.size_or("num_local_experts", 128);
  traits.moe.top_k = config.integer_or("num_experts_per_tok", 4, 1, traits.moe.experts);
  traits.moe.expert_hidden = traits.ffn;
  traits.moe.score = RouterScore::kSoftmaxOfTopK;
  traits.moe.clamped_swiglu = true;
  traits.moe.swiglu_limit = static_cast<float>(config.positive_or("swiglu_limit", 7.0));
  for (LayerTraits& layer : traits.layers) layer.moe = true;

  read_attention_bias(config, true, model.names);
  model.names.router = "router";
  model.names.router_bias = Presence::kYes;
  model.names.gpt_oss_experts = true;
  return model;
}

}  // namespace cheetah
