// SPDX-License-Identifier: MIT
#include "base/format.h"
#include "model/families/family.h"

namespace cheetah {
namespace {

// no_rope_layers says 1 where a layer has rotary positions; without it every interval-th has none.
void read_positions(const Config& config, ModelTraits& traits) {
  constexpr std::string_view kName = "no_rope_layers";
  const size_t count = traits.layers.size();
  const auto interval = static_cast<size_t>(config.integer_or("no_rope_layer_interval", 4, 1, 1 << 20));
  const Json* listed = config.find(kName);
  const std::string rule = format("a list of 0 or 1 for each of {} layers", count);
  if (listed && (!listed->is_array() || listed->size() < count)) config.reject(kName, rule);
  for (size_t i = 0; i < count; ++i) {
    traits.layers[i].rotate = (i + 1) % interval != 0;
    if (!listed) continue;
    const Json& value = (*listed)[i];
    if (value != 0 && value != 1 && !value.is_boolean()) config.reject(kName, rule);
    traits.layers[i].rotate = value.is_boolean() ? value.get<bool>() : value == 1;
  }
}

// Where no list says: layers without positions slide.
void read_windows(const Config& config, ModelTraits& traits) {
  const auto count = static_cast<int64_t>(traits.layers.size());
  const bool slides = config.boolean_or("use_sliding_window", false) && config.has("sliding_window");
  std::vector<bool> sliding;
  for (const LayerTraits& layer : traits.layers) sliding.push_back(slides && !layer.rotate);
  set_sliding_windows(config, read_sliding_layers(config, count).value_or(sliding), 0, traits);
}

}  // namespace

FamilyModel read_smollm3(const Config& config) {
  FamilyModel model = read_base(config, {.kv_heads = 4, .max_positions = 32768, .tied = true});
  ModelTraits& traits = model.traits;
  traits.rope = read_rope(config, traits.head_dim, 2e6);
  read_positions(config, traits);
  read_windows(config, traits);
  read_attention_bias(config, false, model.names);
  if (config.boolean_or("mlp_bias", false)) model.names.mlp_bias = Presence::kYes;
  return model;
}

}  // namespace cheetah
