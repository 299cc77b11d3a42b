#include "model/families/deepseek.h"

#include <cmath>

#include "base/format.h"

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

void read_experts(const Config& config, ModelTraits& traits) {
  MoeTraits& moe = traits.moe;
  moe.experts = config.size_or("n_routed_experts", config.size_or("num_local_experts", 256));
  moe.top_k = config.integer_or("num_experts_per_tok", 8, 1, moe.experts);
  moe.expert_hidden = config.size_or("moe_intermediate_size", 1407);
  const int64_t shared = config.integer_or("n_shared_experts", 0, 0, 1024);
  moe.shared_hidden = shared * moe.expert_hidden;
  moe.scale = static_cast<float>(config.positive_or("routed_scaling_factor", 1.0));
  const auto count = static_cast<int64_t>(traits.layers.size());
  const int64_t dense = config.integer_or("first_k_dense_replace", 0, 0, 1 << 20);
  for (int64_t i = dense; i < count; ++i) traits.layers[static_cast<size_t>(i)].moe = true;
}

}  // namespace

FamilyModel read_deepseek_base(const Config& config) {
  FamilyModel model = read_base(config, {.max_positions = 4096});
  read_latent_attention(config, model.traits);
  read_experts(config, model.traits);
  read_attention_bias(config, false, model.names);
  if (config.boolean_or("mlp_bias", false)) model.names.mlp_bias = Presence::kYes;
  return model;
}

}  // namespace cheetah
