// SPDX-License-Identifier: MIT
#include "model/families/family.h"

namespace cheetah {

FamilyModel read_qwen3(const Config& config) {
  FamilyModel model = read_base(config, {.kv_heads = 32, .head_dim = 128, .max_positions = 32768});
  model.traits.rope = read_rope(config, model.traits.head_dim, 10000.0);
  model.traits.qk_norm = true;
  read_qwen_windows(config, model.traits);
  read_attention_bias(config, false, model.names);
  return model;
}

}  // namespace cheetah
