// SPDX-License-Identifier: MIT
// GGUF architectures with DeepSeek's experts: routed and shared ones, groups, scores by sigmoid.
#include "base/format.h"
#include "model/families/gguf_config.h"

namespace cheetah {

void read_gguf_expert_groups(const GgufConfig& config, MoeTraits& moe) {
  moe.shared_hidden = config.integer_or("expert_shared_count", 0, 0, 1024) * moe.expert_hidden;
  moe.groups = config.integer_or("expert_group_count", 1, 1, moe.experts);
  moe.top_groups = config.integer_or("expert_group_used_count", 1, 1, moe.groups);
  if (moe.experts % moe.groups != 0)
    config.reject("expert_group_count", format("{}", moe.groups),
        format("a divisor of expert_count = {}", moe.experts));
  const int64_t reachable = moe.experts / moe.groups * moe.top_groups;
  if (moe.top_k > reachable)
    config.reject("expert_used_count", format("{}", moe.top_k),
        format("at most the {} experts of expert_group_used_count groups", reachable));
}

void read_gguf_gating(const GgufConfig& config, int64_t default_function, FamilyModel& model) {
  constexpr int64_t kSigmoid = 2;
  if (config.integer_or("expert_gating_func", default_function, 0, 8) != kSigmoid) return;
  MoeTraits& moe = model.traits.moe;
  moe.score = RouterScore::kSigmoid;
  moe.normalize_floor = 1e-20f;
  moe.group_score_top2 = true;
  model.names.selection_bias = "exp_probs_b.bias";
}

// The last of the blocks predict further tokens ahead, which is another way to decode: left out.
void read_gguf_glm4_moe(const GgufConfig& config, FamilyModel& model) {
  constexpr int64_t kSigmoid = 2;
  ModelTraits& traits = model.traits;
  const auto blocks = static_cast<int64_t>(traits.layers.size());
  const int64_t ahead = config.integer_or("nextn_predict_layers", 0, 0, blocks - 1);
  traits.layers.resize(static_cast<size_t>(blocks - ahead));
  traits.rope = read_gguf_rope(config, traits.head_dim, true);
  traits.qk_norm = config.has_tensor("blk.0.attn_q_norm.weight");
  model.names.mlp_in = "post_attention_norm";

  read_gguf_experts(config, traits);
  if (traits.moe.experts == 0) return;
  traits.moe.normalize = config.boolean_or("expert_weights_norm", false);
  read_gguf_expert_groups(config, traits.moe);
  read_gguf_gating(config, kSigmoid, model);
}

}  // namespace cheetah
