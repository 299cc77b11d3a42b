// SPDX-License-Identifier: MIT
#include "model/families/family.h"
#include "model/families/gemma.h"
#include "model/rope_scaling.h"

namespace cheetah {
namespace {

// Sliding layers rotate at their own base and without scaling.
RopeTraits read_local_rope(const Config& config, int64_t head_dim) {
  const Json* parameters = config.find("rope_parameters");
  if (parameters && parameters->is_object() && parameters->contains("sliding_attention"))
    return read_rope(config, head_dim, 10000.0, "sliding_attention");
  return make_rope({.theta = config.positive_or("rope_local_base_freq", 10000.0), .rotary_dim = head_dim});
}

}  // namespace

// Of Gemma 2's soft caps only the logits' is left: attn_logit_softcapping means nothing here.
FamilyModel read_gemma3_text(const Config& config) {
  FamilyModel model = read_gemma_base(config, 262208, 131072);
  ModelTraits& traits = model.traits;
  if (traits.head_dim % 2 != 0) config.reject("head_dim", "an even number");
  traits.rope = read_rope(config, traits.head_dim, 1e6, "full_attention");
  traits.local_rope = read_local_rope(config, traits.head_dim);
  traits.qk_norm = true;
  traits.logit_soft_cap = static_cast<float>(config.positive_or("final_logit_softcapping", 0.0));

  const auto count = static_cast<int64_t>(traits.layers.size());
  const int64_t pattern = config.integer_or("sliding_window_pattern",
      config.integer_or("_sliding_window_pattern", 6, 1, count + 64), 1, count + 64);
  std::vector<bool> sliding;
  for (int64_t i = 0; i < count; ++i) sliding.push_back((i + 1) % pattern != 0);
  sliding = read_sliding_layers(config, count).value_or(sliding);
  set_windows(traits, sliding, config.window_or("sliding_window", 4096));
  for (size_t i = 0; i < traits.layers.size(); ++i) traits.layers[i].local_rope = sliding[i];
  return model;
}

FamilyModel read_gemma3(const Config& config) {
  const Json* text = config.find("text_config");
  if (!text) config.reject("text_config", "the text model's configuration");
  FamilyModel model = read_gemma3_text(Config(*text, config.what() + ": text_config"));
  WeightNames& names = model.names;
  names.roots = {"model.language_model.", "language_model.model.", "model.", ""};
  names.heads = {"lm_head", "language_model.lm_head"};
  names.ignored = {"vision_tower.", "multi_modal_projector."};
  return model;
}

}  // namespace cheetah
