// SPDX-License-Identifier: MIT
#include <cmath>

#include "base/format.h"
#include "model/families/family.h"

namespace cheetah {
namespace {

constexpr int64_t kMaxLayers = 4096;

void read_sizes(const Config& config, ModelTraits& traits) {
  traits.vocab = config.size("vocab_size");
  traits.hidden = config.size("n_embd");
  traits.ffn = config.size_or("n_inner", 4 * traits.hidden);
  traits.layers.resize(static_cast<size_t>(config.integer_or("n_layer", 12, 1, kMaxLayers)));
  traits.heads = traits.kv_heads = config.size_or("n_head", 12);
  if (traits.hidden % traits.heads != 0)
    config.reject("n_embd", format("a multiple of n_head = {}", traits.heads));
  traits.head_dim = traits.hidden / traits.heads;
  traits.max_positions = config.size_or("n_positions", 1024);
}

void name_weights(WeightNames& names) {
  names.roots = {"transformer.", ""};
  names.embedding = "wte";
  names.positions = "wpe";
  names.final_norm = "ln_f";
  names.layer = "h.{}.";
  names.attention_in = "ln_1";
  names.mlp_in = "ln_2";
  names.qkv = "attn.c_attn";
  names.o = "attn.c_proj";
  names.up = "mlp.c_fc";
  names.down = "mlp.c_proj";
  names.qkv_bias = names.o_bias = names.mlp_bias = Presence::kYes;
  names.transposed = true;
}

}  // namespace

FamilyModel read_gpt2(const Config& config) {
  FamilyModel model;
  ModelTraits& traits = model.traits;
  read_sizes(config, traits);
  name_weights(model.names);
  traits.norm = NormKind::kLayer;
  traits.norm_eps = static_cast<float>(config.positive_or("layer_norm_epsilon", 1e-5));
  traits.learned_positions = true;
  traits.gated_mlp = false;
  traits.activation = config.activation("activation_function", "gelu_new");
  traits.tied_embeddings = config.boolean_or("tie_word_embeddings", true);
  const bool scaled = config.boolean_or("scale_attn_weights", true);
  traits.attention_scale =
      scaled ? static_cast<float>(1.0 / std::sqrt(static_cast<double>(traits.head_dim))) : 1.f;
  const bool by_layer = config.boolean_or("scale_attn_by_inverse_layer_idx", false);
  for (size_t i = 0; i < traits.layers.size(); ++i) {
    traits.layers[i].rotate = false;
    if (by_layer) traits.layers[i].attention_factor = 1.f / static_cast<float>(i + 1);
  }
  return model;
}

}  // namespace cheetah
