// SPDX-License-Identifier: MIT
#include <cmath>

#include "model/families/experts.h"
#include "model/families/family.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxDim = int64_t{1} << 20;

void read_latent_attention(const Config& config, ModelTraits& traits) {
  MlaTraits& mla = traits.mla;
  traits.has_mla = true;
  mla.q_rank = config.integer_or("q_lora_rank", config.stands("q_lora_rank") ? 0 : 1536, 1, kMaxDim);
  mla.kv_rank = config.integer_or("kv_lora_rank", 512, 1, kMaxDim);
  mla.nope_dim = config.integer_or("qk_nope_head_dim", 128, 1, kMaxDim);
  mla.rope_dim = config.integer_or("qk_rope_head_dim", 64, 2, kMaxDim);
  mla.value_dim = config.integer_or("v_head_dim", 128, 1, kMaxDim);
  traits.head_dim = mla.nope_dim + mla.rope_dim;
  traits.kv_heads = traits.heads;
  traits.attention_scale =
      static_cast<float>(read_mscale_correction(config) / std::sqrt(static_cast<double>(traits.head_dim)));
  traits.rope = read_rope(config, mla.rope_dim, 10000.0);
  traits.rope.layout = RopeLayout::kInterleaved;
}

// What both generations share: multi-head latent attention, dense first layers, shared experts.
FamilyModel read_deepseek_base(const Config& config) {
  FamilyModel model = read_base(config, {.max_positions = 4096});
  read_latent_attention(config, model.traits);
  read_routed_experts(config, {}, model.traits);
  read_attention_bias(config, false, model.names);
  if (config.boolean_or("mlp_bias", false)) model.names.mlp_bias = Presence::kYes;
  return model;
}

}  // namespace

FamilyModel read_deepseek_v2(const Config& config) {
  FamilyModel model = read_deepseek_base(config);
  MoeTraits& moe = model.traits.moe;
  const std::string method = config.string_or("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    read_expert_groups(config, 1, 1, moe);
  } else if (method != "greedy") {
    config.reject("topk_method", "\"greedy\" or \"group_limited_greedy\"");
  }
  return model;
}

FamilyModel read_deepseek_v3(const Config& config) {
  FamilyModel model = read_deepseek_base(config);
  ModelTraits& traits = model.traits;
  if (!config.boolean_or("rope_interleave", true)) traits.rope.layout = RopeLayout::kHalves;

  traits.moe.scale = static_cast<float>(config.positive_or("routed_scaling_factor", 2.5));
  read_corrected_routing(config, model);
  read_expert_groups(config, 8, 4, traits.moe);
  return model;
}

}  // namespace cheetah
