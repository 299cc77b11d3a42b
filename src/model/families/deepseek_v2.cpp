#include "base/format.h"
#include "model/families/deepseek.h"
#include "model/families/family.h"

namespace cheetah {

FamilyModel read_deepseek_v2(const Config& config) {
  FamilyModel model = read_deepseek_base(config);
  MoeTraits& moe = model.traits.moe;
  const std::string method = config.string_or("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    moe.groups = config.integer_or("n_group", 1, 1, moe.experts);
    moe.top_groups = config.integer_or("topk_group", 1, 1, moe.groups);
    if (moe.experts % moe.groups != 0)
      config.reject("n_group", format("a divisor of n_routed_experts = {}", moe.experts));
  } else if (method != "greedy") {
    config.reject("topk_method", "\"greedy\" or \"group_limited_greedy\"");
  }
  return model;
}

}  // namespace cheetah
