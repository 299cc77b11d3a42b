// SPDX-License-Identifier: MIT
#include "model/cuda/chain_model.h"

#include <algorithm>

namespace cheetah {
namespace {

// Empty, or what keeps this architecture from it.
std::string why_no_chain(const ModelTraits& traits) {
  if (traits.has_mla) return "attention is over latents";
  if (traits.norm != NormKind::kRms || traits.norm_weight_offset != 0.f || !traits.pre_norm ||
      traits.post_norm)
    return "norms are not plain RMSNorms before each part";
  if (traits.parallel_blocks) return "attention and MLP are parallel";
  if (traits.residual_scale != 1.f) return "branches are scaled";
  if (!traits.gated_mlp || traits.activation != Activation::kSilu) return "the MLP is not gated by SiLU";
  if (traits.attention_sinks || traits.attention_soft_cap != 0.f || traits.qk_norm_whole ||
      traits.qkv_clip > 0.f)
    return "attention has sinks, a soft cap, clipping or norms over all heads";
  if (traits.rope.layout != RopeLayout::kHalves || !traits.rope.long_inv_freq.empty() ||
      std::ssize(traits.rope.inv_freq) * 2 != traits.head_dim)
    return "heads are not turned as two halves";
  const auto is_plain = [](const LayerTraits& layer) {
    return layer.rotate && !layer.local_rope && !layer.moe && layer.attention_factor == 1.f;
  };
  if (!std::ranges::all_of(traits.layers, is_plain)) return "some layers are of another kind";
  return "";
}

// A matrix as the kernel takes it: empty where its scales are not of rows.
gpu::ChainMatrix chain_matrix(const WeightMatrix& w) {
  if (w.scales.data && !w.has_row_scales()) return {};
  return {.w = w, .row_scales = w.scales.data};
}

// The model as the kernel takes it; what of it does not fit the device gpu::why_no_chain tells.
gpu::ChainModel chain_model_of(const ModelTraits& traits, const DeviceWeights& device) {
  gpu::ChainModel model{.hidden = traits.hidden,
      .ffn = traits.ffn,
      .heads = traits.heads,
      .kv_heads = traits.kv_heads,
      .head_dim = traits.head_dim,
      .norm_eps = traits.norm_eps,
      .attention_scale = traits.attention_scale,
      .inv_freq = device.rope().inv_freq,
      .rope_magnitude = traits.rope.magnitude};
  // A part that has a bias where the kernel adds none is left out, which gpu::why_no_chain finds; so is one
  // whose scales are not of rows.
  const auto unbiased = [](const Linear& layer) {
    return layer.bias ? gpu::ChainMatrix{} : chain_matrix(layer.w);
  };
  const ModelWeights& weights = device.weights();
  for (size_t i = 0; i < traits.layers.size(); ++i) {
    const LayerWeights& w = weights.layers[i];
    model.layers.push_back({.qkv = chain_matrix(w.attention.qkv.w),
        .o = unbiased(w.attention.o),
        .gate_up = unbiased(w.mlp.gate_up),
        .down = unbiased(w.mlp.down),
        .qkv_bias = w.attention.qkv.bias,
        .attention_norm = w.attention_in.weight,
        .mlp_norm = w.mlp_in.weight,
        .q_norm = traits.qk_norm ? w.attention.q_norm.weight : nullptr,
        .k_norm = traits.qk_norm ? w.attention.k_norm.weight : nullptr,
        .window = traits.layers[i].window});
  }
  return model;
}

}  // namespace

ModelChain make_chain(const ModelTraits& traits, const DeviceWeights& weights, const DevicePlace& place) {
  if (!why_no_chain(traits).empty()) return {};
  const gpu::ChainModel model = chain_model_of(traits, weights);
  const gpu::DeviceInfo& device = place.stream.device();
  if (!gpu::why_no_chain(model, device).empty()) return {};
  const ModelWeights& w = weights.weights();
  gpu::ChainModel with_head = model;
  with_head.final_norm = w.final_norm.weight;
  with_head.head = w.head.bias ? gpu::ChainMatrix{} : chain_matrix(w.head.w);
  const bool makes_logits = with_head.head.w.data && gpu::why_no_chain(with_head, device).empty();
  return {std::make_unique<gpu::DecodeChain>(makes_logits ? with_head : model, place.memory, place.stream),
      makes_logits};
}

}  // namespace cheetah
