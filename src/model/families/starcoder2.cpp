// SPDX-License-Identifier: MIT
#include "model/families/family.h"

namespace cheetah {

FamilyModel read_starcoder2(const Config& config) {
  FamilyModel model = read_base(
      config, {.kv_heads = 2, .max_positions = 4096, .tied = true, .activation = "gelu_pytorch_tanh"});
  ModelTraits& traits = model.traits;
  if (config.string_or("mlp_type", "default") != "default") config.reject("mlp_type", "\"default\"");
  if (config.string_or("norm_type", "layer_norm") != "layer_norm")
    config.reject("norm_type", "\"layer_norm\"");
  traits.norm = NormKind::kLayer;
  traits.norm_eps = static_cast<float>(config.positive_or("norm_epsilon", 1e-5));
  traits.gated_mlp = false;
  traits.rope = read_rope(config, traits.head_dim, 10000.0);
  set_all_windows(traits, config.window_or("sliding_window", 0));

  WeightNames& names = model.names;
  const Presence bias = config.boolean_or("use_bias", true) ? Presence::kYes : Presence::kNo;
  names.qkv_bias = names.o_bias = names.mlp_bias = bias;
  names.up = "mlp.c_fc";
  names.down = "mlp.c_proj";
  return model;
}

}  // namespace cheetah
