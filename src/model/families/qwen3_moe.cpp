// SPDX-License-Identifier: MIT
#include <algorithm>

#include "base/format.h"
#include "model/families/family.h"

namespace cheetah {
namespace {

// Every decoder_sparse_step-th layer has experts, except those listed in mlp_only_layers.
void place_experts(const Config& config, ModelTraits& traits) {
  const auto count = static_cast<int64_t>(traits.layers.size());
  const int64_t step = config.integer_or("decoder_sparse_step", 1, 1, count);
  const Json* dense = config.find("mlp_only_layers");
  const std::string rule = "a list of layer indices";
  if (dense && !dense->is_array()) config.reject("mlp_only_layers", rule);
  for (int64_t i = 0; i < count; ++i) traits.layers[static_cast<size_t>(i)].moe = (i + 1) % step == 0;
  if (!dense) return;
  for (const Json& index : *dense) {
    if (!index.is_number_integer() || index < 0) config.reject("mlp_only_layers", rule);
    if (index < count) traits.layers[index.get<size_t>()].moe = false;
  }
}

}  // namespace

FamilyModel read_qwen3_moe(const Config& config) {
  FamilyModel model = read_base(config, {.kv_heads = 4, .max_positions = 32768});
  ModelTraits& traits = model.traits;
  traits.rope = read_rope(config, traits.head_dim, 10000.0);
  traits.qk_norm = true;
  if (config.boolean_or("use_sliding_window", false))
    set_all_windows(traits, config.window_or("sliding_window", 4096));
  read_attention_bias(config, false, model.names);

  traits.moe.experts = config.size_or("num_experts", config.size_or("num_local_experts", 128));
  traits.moe.top_k = config.integer_or("num_experts_per_tok", 8, 1, traits.moe.experts);
  traits.moe.expert_hidden = config.size_or("moe_intermediate_size", 768);
  traits.moe.normalize = config.boolean_or("norm_topk_prob", false);
  place_experts(config, traits);
  return model;
}

}  // namespace cheetah
