// SPDX-License-Identifier: MIT
#include "model/families/family.h"

namespace cheetah {

FamilyModel read_phi3(const Config& config) {
  FamilyModel model = read_base(config, {.max_positions = 4096, .eps = 1e-5});
  model.traits.rope = read_partial_rope(config, model.traits.head_dim, 10000.0, 1.0);
  set_all_windows(model.traits, config.window_or("sliding_window", 0));
  model.names.qkv = "self_attn.qkv_proj";
  model.names.gate_up = "mlp.gate_up_proj";
  return model;
}

}  // namespace cheetah
