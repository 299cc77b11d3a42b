// SPDX-License-Identifier: MIT
#include "base/format.h"
#include "model/families/family.h"

namespace cheetah {
namespace {

// Sliding layers have rotary positions, full ones none.
void read_layers(const Config& config, ModelTraits& traits) {
  const auto count = static_cast<int64_t>(traits.layers.size());
  const int64_t pattern = config.integer_or("sliding_window_pattern", 4, 1, count + 64);
  std::vector<bool> sliding;
  for (int64_t i = 0; i < count; ++i) sliding.push_back((i + 1) % pattern != 0);
  sliding = read_sliding_layers(config, count).value_or(sliding);
  set_sliding_windows(config, sliding, 4096, traits);
  for (size_t i = 0; i < traits.layers.size(); ++i) traits.layers[i].rotate = sliding[i];
}

}  // namespace

FamilyModel read_cohere2(const Config& config) {
  FamilyModel model = read_base(config, {.max_positions = 8192, .tied = true});
  ModelTraits& traits = model.traits;
  config.require_boolean("use_qk_norm", false, "queries and keys have no norms");
  config.require_boolean("use_parallel_block", true, "attention and MLP read the same input");
  if (config.positive_or("rotary_pct", 1.0) != 1.0) config.reject("rotary_pct", "1: heads turn as a whole");
  config.require_boolean("use_gated_activation", true, "the MLP is gated");
  traits.norm = NormKind::kLayer;
  traits.norm_bias = false;
  traits.norm_eps = static_cast<float>(config.positive_or("layer_norm_eps", 1e-5));
  traits.parallel_blocks = traits.shared_norm = true;
  traits.logit_scale = static_cast<float>(config.positive_or("logit_scale", 0.0625));
  traits.rope = read_rope(config, traits.head_dim, 10000.0);
  traits.rope.layout = RopeLayout::kInterleaved;
  read_layers(config, traits);
  read_attention_bias(config, false, model.names);
  return model;
}

}  // namespace cheetah
