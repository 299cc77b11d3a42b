// SPDX-License-Identifier: MIT
#include "model/families/family.h"

namespace cheetah {

FamilyModel read_mistral(const Config& config) {
  FamilyModel model = read_base(config, {.kv_heads = 8, .max_positions = 131072});
  model.traits.rope = read_rope(config, model.traits.head_dim, 10000.0);
  set_all_windows(model.traits, config.window_or("sliding_window", 4096));
  return model;
}

}  // namespace cheetah
