// SPDX-License-Identifier: MIT
#include "model/families/gemma.h"

#include <cmath>

namespace cheetah {

// Published configurations leave out what transformers has as a default.
FamilyModel read_gemma_base(const Config& config, int64_t default_vocab, int64_t default_positions) {
  FamilyModel model = read_base(config, {.vocab = default_vocab,
                                            .heads = 8,
                                            .kv_heads = 4,
                                            .head_dim = 256,
                                            .max_positions = default_positions,
                                            .tied = true,
                                            .activation_field = "hidden_activation",
                                            .activation = "gelu_pytorch_tanh"});
  ModelTraits& traits = model.traits;
  if (config.boolean_or("use_bidirectional_attention", false))
    config.reject("use_bidirectional_attention", "false: a text generator attends backwards only");
  traits.norm_weight_offset = 1.f;
  traits.post_norm = true;
  traits.embedding_scale = static_cast<float>(std::sqrt(static_cast<double>(traits.hidden)));
  traits.attention_scale =
      static_cast<float>(1.0 / std::sqrt(config.positive_or("query_pre_attn_scalar", 256.0)));
  read_attention_bias(config, false, model.names);

  WeightNames& names = model.names;
  names.attention_out = "post_attention_layernorm";
  names.mlp_in = "pre_feedforward_layernorm";
  names.mlp_out = "post_feedforward_layernorm";
  return model;
}

}  // namespace cheetah
