// SPDX-License-Identifier: MIT
#include "base/format.h"
#include "model/families/family.h"

namespace cheetah {
namespace {

void name_weights(const Config& config, WeightNames& names) {
  names.roots = {"gpt_neox.", ""};
  names.embedding = "embed_in";
  names.final_norm = "final_layer_norm";
  names.heads = {"embed_out"};
  names.qkv = "attention.query_key_value";
  names.qkv_by_head = true;
  names.o = "attention.dense";
  names.up = "mlp.dense_h_to_4h";
  names.down = "mlp.dense_4h_to_h";
  read_attention_bias(config, true, names);
  names.mlp_bias = Presence::kYes;
}

}  // namespace

FamilyModel read_gpt_neox(const Config& config) {
  FamilyModel model = read_base(config, {.activation = "gelu"});
  ModelTraits& traits = model.traits;
  if (traits.kv_heads != traits.heads)
    config.reject("num_key_value_heads", format("num_attention_heads = {}", traits.heads));
  traits.norm = NormKind::kLayer;
  traits.norm_eps = static_cast<float>(config.positive_or("layer_norm_eps", 1e-5));
  traits.gated_mlp = false;
  traits.parallel_blocks = config.boolean_or("use_parallel_residual", true);
  traits.rope = read_partial_rope(config, traits.head_dim, config.positive_or("rotary_emb_base", 10000.0),
      config.positive_or("rotary_pct", 0.25));
  name_weights(config, model.names);
  return model;
}

}  // namespace cheetah
