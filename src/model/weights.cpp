// SPDX-License-Identifier: MIT
#include "model/weights.h"

#include <algorithm>
#include <string_view>

#include "base/hash.h"
#include "model/fingerprint.h"

namespace cheetah {
namespace {

int64_t number_bytes(const WeightMatrix& w) { return w.data ? w.rows * row_bytes(w.dtype, w.cols) : 0; }
int64_t matrix_bytes(const WeightMatrix& w) {
  return number_bytes(w) + w.num_scales() * static_cast<int64_t>(sizeof(float));
}
int64_t matrix_elements(const WeightMatrix& w) { return w.data ? w.rows * w.cols : 0; }

bool neighbours(const Linear& a, const Linear& b) {
  if (!a.present() || !b.present() || a.w.dtype != b.w.dtype || a.w.cols != b.w.cols) return false;
  if (b.w.data != a.w.data + number_bytes(a.w)) return false;
  const WeightScales &first = a.w.scales, &second = b.w.scales;
  if (first.rows != second.rows || first.cols != second.cols || !first.data != !second.data) return false;
  if (first.data && (a.w.rows % first.rows != 0 || second.data != a.w.scales_of_row(a.w.rows))) return false;
  return a.bias ? b.bias == a.bias + a.w.rows : b.bias == nullptr;
}

Linear joined(const Linear& a, int64_t rows) {
  Linear result = a;
  result.w.rows = rows;
  return result;
}

// Sums `measure` over a layer's matrices; of the experts, `share` of them.
template <class Measure>
int64_t sum_layer(const LayerWeights& layer, double share, Measure&& measure) {
  const AttentionWeights& attention = layer.attention;
  int64_t total = 0;
  for (const Linear* linear : {&attention.q, &attention.k, &attention.v, &attention.o, &attention.q_a,
           &attention.kv_a, &layer.mlp.gate, &layer.mlp.up, &layer.mlp.down, &layer.moe.router,
           &layer.moe.shared.gate, &layer.moe.shared.up, &layer.moe.shared.down})
    total += measure(linear->w);
  for (const auto* heads : {&attention.k_up, &attention.v_up})
    for (const WeightMatrix& w : *heads) total += measure(w);
  int64_t experts = 0;
  for (const auto* role : {&layer.moe.gate, &layer.moe.up, &layer.moe.down})
    for (const WeightMatrix& w : *role) experts += measure(w);
  return total + static_cast<int64_t>(static_cast<double>(experts) * share);
}

template <class Measure>
int64_t sum_layers(const ModelWeights& weights, double share, Measure&& measure) {
  int64_t total = 0;
  for (const LayerWeights& layer : weights.layers) total += sum_layer(layer, share, measure);
  return total;
}

// Norm weights and biases: few, but a parameter count is exact.
int64_t count_vectors(const ModelWeights& weights, const ModelTraits& traits) {
  int64_t total = 0;
  const auto norm = [&](const Norm& n, int64_t size) {
    total += (n.weight ? size : 0) + (n.bias ? size : 0);
  };
  const auto bias = [&](const Linear& linear) { total += linear.bias ? linear.w.rows : 0; };
  norm(weights.final_norm, traits.hidden);
  const int64_t q_norm = traits.qk_norm_whole ? traits.heads * traits.head_dim : traits.head_dim;
  const int64_t k_norm = traits.qk_norm_whole ? traits.kv_heads * traits.head_dim : traits.head_dim;
  for (const LayerWeights& layer : weights.layers) {
    const AttentionWeights& attention = layer.attention;
    for (const Norm* n : {&layer.attention_in, &layer.attention_out, &layer.mlp_in, &layer.mlp_out})
      norm(*n, traits.hidden);
    norm(attention.q_norm, q_norm);
    norm(attention.k_norm, k_norm);
    norm(attention.q_a_norm, traits.mla.q_rank);
    norm(attention.kv_a_norm, traits.mla.kv_rank);
    for (const Linear* linear : {&attention.q, &attention.k, &attention.v, &attention.o, &attention.q_a,
             &attention.kv_a, &layer.mlp.gate, &layer.mlp.up, &layer.mlp.down, &layer.moe.router,
             &layer.moe.shared.gate, &layer.moe.shared.up, &layer.moe.shared.down})
      bias(*linear);
    if (attention.sinks) total += traits.heads;
    if (layer.moe.selection_bias) total += traits.moe.experts;
    total += static_cast<int64_t>(layer.moe.gate_bias.size()) * 2 * traits.moe.expert_hidden +
             static_cast<int64_t>(layer.moe.down_bias.size()) * traits.hidden;
  }
  return total;
}

bool tied(const ModelWeights& weights) { return weights.head.w.data == weights.embedding.data; }

}  // namespace

int64_t count_parameters(const ModelWeights& weights, const ModelTraits& traits) {
  return sum_layers(weights, 1.0, matrix_elements) + matrix_elements(weights.embedding) +
         matrix_elements(weights.positions) + (tied(weights) ? 0 : matrix_elements(weights.head.w)) +
         count_vectors(weights, traits);
}

int64_t count_weight_bytes(const ModelWeights& weights, const ModelTraits& traits) {
  return sum_layers(weights, 1.0, matrix_bytes) + matrix_bytes(weights.embedding) +
         matrix_bytes(weights.positions) + (tied(weights) ? 0 : matrix_bytes(weights.head.w)) +
         count_vectors(weights, traits) * 4;
}

int64_t count_decode_bytes(const ModelWeights& weights, const ModelTraits& traits) {
  const double share = traits.moe.experts > 0
                           ? static_cast<double>(traits.moe.top_k) / static_cast<double>(traits.moe.experts)
                           : 1.0;
  return sum_layers(weights, share, matrix_bytes) + row_bytes(weights.embedding.dtype, traits.hidden) +
         matrix_bytes(weights.head.w) + count_vectors(weights, traits) * 4;
}

uint64_t fingerprint_of(const ModelWeights& weights) {
  constexpr int64_t kBytes = 64, kMostSamples = 8, kAllSamples = 8192;
  const int64_t matrices = sum_layers(weights, 1.0, [](const WeightMatrix& w) { return w.data ? 1 : 0; }) + 2;
  const int64_t samples = std::clamp<int64_t>(kAllSamples / matrices, 1, kMostSamples);
  uint64_t hash = kFnvStart;
  const auto add = [&](const WeightMatrix& w) -> int64_t {
    const int64_t size = number_bytes(w);
    for (int64_t i = 1; i <= samples && size > 0; ++i) {
      const int64_t length = std::min(size, kBytes);
      const int64_t first = (size - length) / samples * i;
      hash = fnv1a({reinterpret_cast<const char*>(w.data) + first, static_cast<size_t>(length)}, hash);
    }
    return size;
  };
  add(weights.embedding);
  sum_layers(weights, 1.0, add);
  add(weights.head.w);
  return hash;
}

void join_neighbours(ModelWeights& weights) {
  for (LayerWeights& layer : weights.layers) {
    AttentionWeights& a = layer.attention;
    if (neighbours(a.q, a.k) && neighbours(a.k, a.v))
      a.qkv = joined(a.q, a.q.w.rows + a.k.w.rows + a.v.w.rows);
    for (MlpWeights* mlp : {&layer.mlp, &layer.moe.shared})
      if (neighbours(mlp->gate, mlp->up)) mlp->gate_up = joined(mlp->gate, 2 * mlp->gate.w.rows);
  }
}

}  // namespace cheetah
