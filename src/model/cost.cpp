// SPDX-License-Identifier: MIT
#include "model/cost.h"

#include <algorithm>

namespace cheetah {
namespace {

int64_t attention_parameters(const ModelTraits& t) {
  if (!t.has_mla) return t.hidden * t.head_dim * 2 * (t.heads + t.kv_heads);
  const MlaTraits& mla = t.mla;
  const int64_t query_out = t.heads * (mla.nope_dim + mla.rope_dim);
  const int64_t query = mla.q_rank ? mla.q_rank * (t.hidden + query_out) : t.hidden * query_out;
  const int64_t latent = t.hidden * (mla.kv_rank + mla.rope_dim);
  const int64_t up = mla.kv_rank * t.heads * (mla.nope_dim + mla.value_dim);
  return query + latent + up + t.heads * mla.value_dim * t.hidden;
}

int64_t dense_mlp_parameters(const ModelTraits& t) { return (t.gated_mlp ? 3 : 2) * t.hidden * t.ffn; }

int64_t moe_parameters(const ModelTraits& t, int64_t experts) {
  const int64_t expert = 3 * t.hidden * t.moe.expert_hidden;
  return t.hidden * t.moe.experts + experts * expert + 3 * t.hidden * t.moe.shared_hidden;
}

// Cached positions the token after `context` others sees in one layer, itself included.
int64_t seen(const LayerTraits& layer, int64_t context) {
  return layer.window ? std::min(layer.window, context + 1) : context + 1;
}

// The sum of seen() over contexts 0 .. tokens - 1, in closed form.
double seen_by_prompt(const LayerTraits& layer, int64_t tokens) {
  const auto n = static_cast<double>(tokens);
  const auto w = static_cast<double>(layer.window);
  if (layer.window == 0 || tokens <= layer.window) return n * (n + 1) / 2;
  return w * (w + 1) / 2 + (n - w) * w;
}

// Operations of one head's score and weighted value for one cached position, over all heads.
double attention_flops_per_position(const ModelTraits& t) {
  const int64_t width = t.has_mla ? cache_key_dim(t) + cache_value_dim(t) : 2 * t.head_dim;
  return 2.0 * static_cast<double>(t.heads * width);
}

double matrix_flops(const ParameterCount& count) {
  return 2.0 * static_cast<double>(count.attention + count.active_mlp);
}

double head_flops(const ModelTraits& t) { return 2.0 * static_cast<double>(t.vocab * t.hidden); }

double bytes_of(DType dtype, int64_t elements) {
  const DTypeTraits& traits = traits_of(dtype);
  return static_cast<double>(elements) * static_cast<double>(traits.block_bytes) /
         static_cast<double>(traits.block_elements);
}

}  // namespace

ParameterCount parameter_count(const ModelTraits& t) {
  ParameterCount count;
  count.embedding = t.vocab * t.hidden + (t.learned_positions ? t.max_positions * t.hidden : 0);
  count.head = t.tied_embeddings ? 0 : t.vocab * t.hidden;
  const int64_t norms = (t.pre_norm ? 2 : 0) + (t.post_norm ? 2 : 0) - (t.shared_norm ? 1 : 0);
  const int64_t norm_width = norms_have_bias(t) ? 2 * t.hidden : t.hidden;
  for (const LayerTraits& layer : t.layers) {
    count.attention += attention_parameters(t);
    count.mlp += layer.moe ? moe_parameters(t, t.moe.experts) : dense_mlp_parameters(t);
    count.active_mlp += layer.moe ? moe_parameters(t, t.moe.top_k) : dense_mlp_parameters(t);
    count.norms += norms * norm_width;
  }
  count.norms += norm_width;
  return count;
}

double decode_flops(const ModelTraits& t, int64_t context) {
  double positions = 0;
  for (const LayerTraits& layer : t.layers) positions += static_cast<double>(seen(layer, context));
  return matrix_flops(parameter_count(t)) + head_flops(t) + positions * attention_flops_per_position(t);
}

double prompt_flops(const ModelTraits& t, int64_t tokens) {
  double positions = 0;
  for (const LayerTraits& layer : t.layers) positions += seen_by_prompt(layer, tokens);
  return static_cast<double>(tokens) * matrix_flops(parameter_count(t)) + head_flops(t) +
         positions * attention_flops_per_position(t);
}

double kv_read_bytes(const ModelTraits& t, DType dtype, int64_t context) {
  const int64_t width = cache_key_dim(t) + (t.has_mla ? 0 : cache_value_dim(t));
  double bytes = 0;
  for (const LayerTraits& layer : t.layers)
    bytes += static_cast<double>(seen(layer, context)) * bytes_of(dtype, cache_heads(t) * width);
  return bytes;
}

double decode_weight_bytes(const ModelTraits& t, DType dtype) {
  const ParameterCount count = parameter_count(t);
  return bytes_of(dtype, count.attention + count.active_mlp + t.vocab * t.hidden + t.hidden);
}

double all_weight_bytes(const ModelTraits& t, DType dtype) {
  const ParameterCount count = parameter_count(t);
  return bytes_of(dtype, count.total() - count.norms) + 4.0 * static_cast<double>(count.norms);
}

}  // namespace cheetah
