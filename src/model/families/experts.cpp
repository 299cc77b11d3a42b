// SPDX-License-Identifier: MIT
#include "model/families/experts.h"

#include <algorithm>

#include "base/format.h"

namespace cheetah {

void read_routed_experts(const Config& config, const ExpertDefaults& defaults, ModelTraits& traits) {
  MoeTraits& moe = traits.moe;
  moe.experts = config.size_or("n_routed_experts", config.size_or("num_local_experts", defaults.experts));
  moe.top_k = config.integer_or("num_experts_per_tok", 8, 1, moe.experts);
  moe.expert_hidden = config.size_or("moe_intermediate_size", defaults.hidden);
  const int64_t shared = config.integer_or("n_shared_experts", defaults.shared, 0, 1024);
  moe.shared_hidden = shared * moe.expert_hidden;
  moe.scale = static_cast<float>(config.positive_or("routed_scaling_factor", 1.0));
  const auto count = static_cast<int64_t>(traits.layers.size());
  const int64_t dense = config.integer_or("first_k_dense_replace", defaults.dense_layers, 0, 1 << 20);
  for (int64_t i = dense; i < count; ++i) traits.layers[static_cast<size_t>(i)].moe = true;
}

void read_expert_groups(const Config& config, int64_t groups, int64_t top_groups, MoeTraits& moe) {
  moe.groups = config.integer_or("n_group", groups, 1, moe.experts);
  moe.top_groups = config.integer_or("topk_group", std::min(top_groups, moe.groups), 1, moe.groups);
  if (moe.experts % moe.groups != 0)
    config.reject("n_group", format("a divisor of n_routed_experts = {}", moe.experts));
  const int64_t reachable = moe.experts / moe.groups * moe.top_groups;
  if (moe.top_k > reachable)
    config.reject("num_experts_per_tok", format("at most the {} experts of topk_group groups", reachable));
}

void read_corrected_routing(const Config& config, FamilyModel& model) {
  MoeTraits& moe = model.traits.moe;
  moe.score = RouterScore::kSigmoid;
  moe.normalize = config.boolean_or("norm_topk_prob", true);
  moe.normalize_floor = 1e-20f;
  moe.group_score_top2 = true;
  model.names.selection_bias = "gate.e_score_correction_bias";
}

}  // namespace cheetah
