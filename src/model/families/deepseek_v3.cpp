#include "base/format.h"
#include "model/families/deepseek.h"
#include "model/families/family.h"

namespace cheetah {

FamilyModel read_deepseek_v3(const Config& config) {
  FamilyModel model = read_deepseek_base(config);
  ModelTraits& traits = model.traits;
  if (!config.boolean_or("rope_interleave", true)) traits.rope.layout = RopeLayout::kHalves;

  MoeTraits& moe = traits.moe;
  moe.score = RouterScore::kSigmoid;
  moe.normalize = config.boolean_or("norm_topk_prob", true);
  moe.normalize_floor = 1e-20f;
  moe.scale = static_cast<float>(config.positive_or("routed_scaling_factor", 2.5));
  moe.groups = config.integer_or("n_group", 8, 1, moe.experts);
  moe.top_groups = config.integer_or("topk_group", 4, 1, moe.groups);
  moe.group_score_top2 = true;
  if (moe.experts % moe.groups != 0)
    config.reject("n_group", format("a divisor of n_routed_experts = {}", moe.experts));
  model.names.selection_bias = "gate.e_score_correction_bias";
  return model;
}

}  // namespace cheetah
