#include <algorithm>
#include <cmath>

#include "base/format.h"
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

// What both generations share: multi-head latent attention, dense first layers, shared experts.
FamilyModel read_deepseek_base(const Config& config) {
  FamilyModel model = read_base(config, {.max_positions = 4096});
  read_latent_attention(config, model.traits);
  read_experts(config, model.traits);
  read_attention_bias(config, false, model.names);
  if (config.boolean_or("mlp_bias", false)) model.names.mlp_bias = Presence::kYes;
  return model;
}

void read_groups(const Config& config, int64_t groups, int64_t top_groups, MoeTraits& moe) {
  moe.groups = config.integer_or("n_group", groups, 1, moe.experts);
  moe.top_groups = config.integer_or("topk_group", std::min(top_groups, moe.groups), 1, moe.groups);
  if (moe.experts % moe.groups != 0)
    config.reject("n_group", format("a divisor of n_routed_experts = {}", moe.experts));
}

}  // namespace

FamilyModel read_deepseek_v2(const Config& config) {
  FamilyModel model = read_deepseek_base(config);
  MoeTraits& moe = model.traits.moe;
  const std::string method = config.string_or("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    read_groups(config, 1, 1, moe);
  } else if (method != "greedy") {
    config.reject("topk_method", "\"greedy\" or \"group_limited_greedy\"");
  }
  return model;
}

FamilyModel read_deepseek_v3(const Config& config) {
  FamilyModel model = read_deepseek_base(config);
  ModelTraits& traits = model.traits;
  if (!config.boolean_or("rope_interleave", true)) traits.rope.layout = RopeLayout::kHalves;

  MoeTraits& moe = traits.moe;
  moe.score = RouterScore::kSigmoid;
  moe.normalize = config.boolean_or("norm_topk_prob", true);
  moe.normalize_floor = 1e-20f;
  moe.scale = static_cast<float>(config.positive_or("routed_scaling_factor", 2.5));
  moe.group_score_top2 = true;
  read_groups(config, 8, 4, moe);
  model.names.selection_bias = "gate.e_score_correction_bias";
  return model;
}

}  // namespace cheetah
