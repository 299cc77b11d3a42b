// SPDX-License-Identifier: MIT
#include "model/families/family.h"

namespace cheetah {

FamilyModel read_qwen2(const Config& config) {
  FamilyModel model = read_base(config, {.kv_heads = 32, .max_positions = 32768});
  model.traits.rope = read_rope(config, model.traits.head_dim, 10000.0);
  read_qwen_windows(config, model.traits);
  model.names.qkv_bias = Presence::kYes;  // always, and none on the way out
  return model;
}

}  // namespace cheetah
