// SPDX-License-Identifier: MIT
#pragma once
// What a model family is, as data. The one transformer (transformer.h) runs whatever these say.
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/activation/activation.h"
#include "kernels/moe/moe.h"
#include "kernels/rope/rope.h"

namespace cheetah {

enum class NormKind { kRms, kLayer };

struct RopeTraits {
  std::vector<float> inv_freq;       // [rotary_dim / 2], scaling already applied; empty: no rotation
  std::vector<float> long_inv_freq;  // longrope: used when a sequence grows past original_context
  int64_t original_context = 0;
  float magnitude = 1.f;
  float long_magnitude = 1.f;
  RopeLayout layout = RopeLayout::kHalves;
};

struct MoeTraits {
  int64_t experts = 0;
  int64_t top_k = 0;
  int64_t expert_hidden = 0;
  int64_t shared_hidden = 0;  // 0: no shared expert
  RouterScore score = RouterScore::kSoftmax;
  bool normalize = false;
  float normalize_floor = 0.f;
  float scale = 1.f;
  int64_t groups = 1;
  int64_t top_groups = 1;
  bool group_score_top2 = false;
  bool clamped_swiglu = false;
  float swiglu_limit = 7.f;
};

// What the router of a step's rows is asked; logits and selection_bias lie where the caller computes.
inline RouterArgs router_args(
    const MoeTraits& moe, const float* logits, int64_t tokens, const float* selection_bias) {
  return {.logits = logits,
      .tokens = tokens,
      .experts = moe.experts,
      .top_k = moe.top_k,
      .score = moe.score,
      .normalize = moe.normalize,
      .normalize_floor = moe.normalize_floor,
      .scale = moe.scale,
      .selection_bias = selection_bias,
      .groups = moe.groups,
      .top_groups = moe.top_groups,
      .group_score_top2 = moe.group_score_top2};
}

struct MlaTraits {
  int64_t q_rank = 0;  // 0: queries come from one projection
  int64_t kv_rank = 0;
  int64_t nope_dim = 0;
  int64_t rope_dim = 0;
  int64_t value_dim = 0;
  float norm_eps = 1e-6f;  // of the norms on the low-rank queries and the latent
};

struct LayerTraits {
  int64_t window = 0;       // 0: full attention
  bool rotate = true;       // false: this layer uses no positions
  bool local_rope = false;  // use ModelTraits::local_rope
  bool moe = false;
  float attention_factor = 1.f;  // multiplies ModelTraits::attention_scale (GPT-2's per-layer scaling)
};

struct ModelTraits {
  std::string family;
  int64_t vocab = 0;
  int64_t hidden = 0;
  int64_t ffn = 0;  // of dense layers
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_positions = 0;
  std::vector<LayerTraits> layers;

  NormKind norm = NormKind::kRms;
  float norm_eps = 1e-6f;
  float norm_weight_offset = 0.f;
  bool norm_bias = true;       // LayerNorm only: norms have a bias
  bool pre_norm = true;        // norms before attention and MLP
  bool post_norm = false;      // norms after them, before the residual sum
  bool qk_norm = false;        // RMSNorm of queries and keys per head
  bool qk_norm_whole = false;  // … over all heads at once (OLMo 2)
  float qkv_clip = 0.f;        // queries, keys and values stay between minus this and this; not with qk_norm

  // Attention and MLP both read the layer's input, and both outputs are added to it. Needs pre_norm.
  bool parallel_blocks = false;
  bool shared_norm = false;  // parallel blocks: attention's norm is the MLP's too, there is no mlp_in

  bool learned_positions = false;
  RopeTraits rope;
  RopeTraits local_rope;

  Activation activation = Activation::kSilu;
  bool gated_mlp = true;

  float embedding_scale = 1.f;
  float residual_scale = 1.f;
  float attention_scale = 0.f;  // multiplies q.k
  float attention_soft_cap = 0.f;
  float logit_soft_cap = 0.f;
  float logit_scale = 1.f;
  bool attention_sinks = false;

  bool has_mla = false;
  MlaTraits mla;
  MoeTraits moe;
  bool tied_embeddings = false;

  std::vector<int32_t> eos_ids;
  int32_t bos_id = -1;
};

inline bool norms_have_bias(const ModelTraits& traits) {
  return traits.norm == NormKind::kLayer && traits.norm_bias;
}

// Dimensions of one cached row.
inline int64_t cache_heads(const ModelTraits& traits) { return traits.has_mla ? 1 : traits.kv_heads; }
inline int64_t cache_key_dim(const ModelTraits& traits) {
  return traits.has_mla ? traits.mla.kv_rank + traits.mla.rope_dim : traits.head_dim;
}
inline int64_t cache_value_dim(const ModelTraits& traits) {
  return traits.has_mla ? traits.mla.kv_rank : traits.head_dim;
}

}  // namespace cheetah
