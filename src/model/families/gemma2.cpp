// SPDX-License-Identifier: MIT
#include "model/families/family.h"
#include "model/families/gemma.h"

namespace cheetah {
namespace {

// Absent: the model's published value; null: no cap.
float soft_cap(const Config& config, std::string_view name, double fallback) {
  if (config.stands(name) && !config.has(name)) return 0.f;
  return static_cast<float>(config.positive_or(name, fallback));
}

}  // namespace

FamilyModel read_gemma2(const Config& config) {
  FamilyModel model = read_gemma_base(config, 256000, 8192);
  ModelTraits& traits = model.traits;
  traits.rope = read_rope(config, traits.head_dim, 10000.0);
  traits.attention_soft_cap = soft_cap(config, "attn_logit_softcapping", 50.0);
  traits.logit_soft_cap = soft_cap(config, "final_logit_softcapping", 30.0);

  const auto count = static_cast<int64_t>(traits.layers.size());
  std::vector<bool> alternating;
  for (int64_t i = 0; i < count; ++i) alternating.push_back(i % 2 == 0);
  set_windows(traits, read_sliding_layers(config, count).value_or(alternating),
      config.window_or("sliding_window", 4096));
  return model;
}

}  // namespace cheetah
