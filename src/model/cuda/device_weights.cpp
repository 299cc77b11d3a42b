// SPDX-License-Identifier: MIT
#include "model/cuda/device_weights.h"

#include "base/error.h"

namespace cheetah {
namespace {

Placement::Piece piece_of(const WeightMatrix& w) {
  return {w.data, w.data ? w.rows * row_bytes(w.dtype, w.cols) : 0};
}
Placement::Piece piece_of(const float* vector, int64_t count) {
  return {
      reinterpret_cast<const std::byte*>(vector), vector ? count * static_cast<int64_t>(sizeof(float)) : 0};
}

// Every matrix and vector of a layer except the experts, which join in pairs. `on` takes a WeightMatrix& or a
// (const float*&, count).
template <class Visit>
void visit_layer(LayerWeights& layer, const ModelTraits& traits, Visit&& on) {
  AttentionWeights& a = layer.attention;
  for (Linear* linear : {&a.qkv, &a.q, &a.k, &a.v, &a.o, &a.q_a, &a.kv_a, &layer.mlp.gate_up, &layer.mlp.gate,
           &layer.mlp.up, &layer.mlp.down, &layer.moe.router, &layer.moe.shared.gate_up,
           &layer.moe.shared.gate, &layer.moe.shared.up, &layer.moe.shared.down}) {
    on(linear->w);
    on(linear->bias, linear->w.rows);
  }
  const auto norm = [&](Norm& n, int64_t size) {
    on(n.weight, size);
    on(n.bias, size);
  };
  for (Norm* n : {&layer.attention_in, &layer.attention_out, &layer.mlp_in, &layer.mlp_out})
    norm(*n, traits.hidden);
  const int64_t heads = traits.qk_norm_whole ? traits.heads : 1,
                kv_heads = traits.qk_norm_whole ? traits.kv_heads : 1;
  norm(a.q_norm, heads * traits.head_dim);
  norm(a.k_norm, kv_heads * traits.head_dim);
  norm(a.q_a_norm, traits.mla.q_rank);
  norm(a.kv_a_norm, traits.mla.kv_rank);
  on(a.sinks, traits.heads);
  on(layer.moe.selection_bias, traits.moe.experts);
  for (auto* heads_of : {&a.k_up, &a.v_up})
    for (WeightMatrix& w : *heads_of) on(w);
}

template <class Visit>
void visit_experts(MoeWeights& moe, const ModelTraits& traits, Visit&& on) {
  for (auto* role : {&moe.gate_up, &moe.gate, &moe.up, &moe.down})
    for (WeightMatrix& w : *role) on(w);
  for (auto* biases : {&moe.gate_bias, &moe.up_bias})
    for (const float*& bias : *biases) on(bias, traits.moe.expert_hidden);
  for (const float*& bias : moe.down_bias) on(bias, traits.hidden);
}

Placement::Piece scales_of(const WeightMatrix& w) { return piece_of(w.scales.data, w.num_scales()); }

bool can_join(const WeightMatrix& a, const WeightMatrix& b) {
  constexpr int64_t kCopyAlignment = 16;  // that each part keeps for itself
  const WeightScales &first = a.scales, &second = b.scales;
  if (!first.data != !second.data || first.rows != second.rows || first.cols != second.cols) return false;
  if (first.data && a.rows % first.rows != 0) return false;
  return a.data && b.data && a.dtype == b.dtype && a.cols == b.cols &&
         piece_of(a).bytes % kCopyAlignment == 0;
}

// Two or three linears as one, where they can be: weights side by side and biases too, or none at all.
bool join(Placement& placement, const Linear& a, const Linear& b) {
  if (!can_join(a.w, b.w) || !a.bias != !b.bias) return false;
  if (!placement.add_neighbours({piece_of(a.w), piece_of(b.w)})) return false;
  if (a.w.scales.data && !placement.add_neighbours({scales_of(a.w), scales_of(b.w)})) return false;
  return !a.bias || placement.add_neighbours({piece_of(a.bias, a.w.rows), piece_of(b.bias, b.w.rows)});
}
bool join(Placement& placement, const Linear& a, const Linear& b, const Linear& c) {
  if (!can_join(a.w, b.w) || !can_join(b.w, c.w) || !a.bias != !b.bias || !b.bias != !c.bias) return false;
  if (!placement.add_neighbours({piece_of(a.w), piece_of(b.w), piece_of(c.w)})) return false;
  if (a.w.scales.data && !placement.add_neighbours({scales_of(a.w), scales_of(b.w), scales_of(c.w)}))
    return false;
  return !a.bias || placement.add_neighbours(
                        {piece_of(a.bias, a.w.rows), piece_of(b.bias, b.w.rows), piece_of(c.bias, c.w.rows)});
}

Linear joined(const Linear& first, int64_t rows) {
  Linear result = first;
  result.w.rows = rows;
  return result;
}

void join_layer(Placement& placement, LayerWeights& layer, const ModelTraits& traits) {
  AttentionWeights& a = layer.attention;
  if (!a.qkv.present() && !traits.has_mla && join(placement, a.q, a.k, a.v))
    a.qkv = joined(a.q, a.q.w.rows + a.k.w.rows + a.v.w.rows);
  for (MlpWeights* mlp : {&layer.mlp, &layer.moe.shared})
    if (!mlp->gate_up.present() && join(placement, mlp->gate, mlp->up))
      mlp->gate_up = joined(mlp->gate, 2 * mlp->gate.w.rows);
}

// All experts' gates and ups, or none: a grouped product has one shape.
void join_experts(Placement& placement, MoeWeights& moe) {
  if (!moe.gate_up.empty() || moe.gate.empty() || moe.gate.size() != moe.up.size()) return;
  std::vector<WeightMatrix> both;
  for (size_t e = 0; e < moe.gate.size(); ++e) {
    const Linear gate{.w = moe.gate[e], .bias = moe.gate_bias.empty() ? nullptr : moe.gate_bias[e]};
    const Linear up{.w = moe.up[e], .bias = moe.up_bias.empty() ? nullptr : moe.up_bias[e]};
    if (!join(placement, gate, up)) return;
    both.push_back(joined(gate, 2 * gate.w.rows).w);
  }
  moe.gate_up = std::move(both);
}

}  // namespace

DeviceWeights::DeviceWeights(const ModelWeights& host, const ModelTraits& traits, const DevicePlace& place)
    : place_(place) {
  weights_.embedding = host.embedding;
  weights_.positions = host.positions;
  weights_.layers = host.layers;
  weights_.final_norm = host.final_norm;
  weights_.head = host.head;
  plan(traits);
  block_ = place.memory.allocate(gpu::ArenaKind::kWeights, placement_.total_bytes(), place.stream);
  upload_pieces(placement_, block_, place.stream);
  translate(traits);
  make_tables(traits);
  place.stream.wait();  // the small arrays came from memory that is not pinned
}

void DeviceWeights::plan(const ModelTraits& traits) {
  const auto add = [&](auto& what, auto... count) {
    placement_.add(piece_of(what, count...));
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(what)>, WeightMatrix>)
      placement_.add(scales_of(what));
  };
  add(weights_.embedding);
  add(weights_.positions);
  for (LayerWeights& layer : weights_.layers) {
    join_layer(placement_, layer, traits);
    visit_layer(layer, traits, add);
    join_experts(placement_, layer.moe);
    visit_experts(layer.moe, traits, add);
  }
  add(weights_.final_norm.weight, traits.hidden);
  add(weights_.final_norm.bias, traits.hidden);
  add(weights_.head.w);
  add(weights_.head.bias, weights_.head.w.rows);
}

void DeviceWeights::translate(const ModelTraits& traits) {
  const auto move = [&](auto*& pointer) {
    if (!pointer) return;
    pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(
        block_.data() + placement_.offset_of(pointer));
  };
  const auto visit = [&](auto& what, auto...) {
    if constexpr (std::is_same_v<std::remove_reference_t<decltype(what)>, WeightMatrix>) {
      move(what.data);
      move(what.scales.data);
    } else {
      move(what);
    }
  };
  visit(weights_.embedding);
  visit(weights_.positions);
  for (LayerWeights& layer : weights_.layers) {
    visit_layer(layer, traits, visit);
    visit_experts(layer.moe, traits, visit);
  }
  visit(weights_.final_norm.weight);
  visit(weights_.final_norm.bias);
  visit(weights_.head.w);
  visit(weights_.head.bias);
}

void DeviceWeights::make_tables(const ModelTraits& traits) {
  for (const LayerWeights& layer : weights_.layers) {
    const MoeWeights& moe = layer.moe;
    DeviceLayerTables& tables = tables_.emplace_back();
    tables.k_up = table_of(layer.attention.k_up, {});
    tables.v_up = table_of(layer.attention.v_up, {});
    tables.gate_up = table_of(moe.gate_up, moe.gate_bias);
    if (moe.gate_up.empty()) {
      tables.gate = table_of(moe.gate, moe.gate_bias);
      tables.up = table_of(moe.up, moe.up_bias);
    }
    tables.down = table_of(moe.down, moe.down_bias);
  }
  rope_ = upload_rope(traits.rope);
  local_rope_ = upload_rope(traits.local_rope);
}

gpu::WeightMatrices DeviceWeights::table_of(
    const std::vector<WeightMatrix>& matrices, const std::vector<const float*>& biases) {
  if (matrices.empty()) return {};
  const WeightMatrix& first = matrices.front();
  std::vector<const std::byte*> data;
  for (const WeightMatrix& w : matrices) {
    if (w.dtype != first.dtype || w.rows != first.rows || w.cols != first.cols ||
        !w.scales.data != !first.scales.data || w.scales.rows != first.scales.rows)
      throw Error(
          "experts of one layer are stored in different types, which the CUDA backend does not take: use "
          "--device cpu");
    data.push_back(w.data);
  }
  gpu::WeightMatrices table{
      .dtype = first.dtype, .count = std::ssize(matrices), .rows = first.rows, .cols = first.cols};
  table.data = reinterpret_cast<const std::byte* const*>(keep(std::as_bytes(std::span(data))));
  if (first.scales.data) {
    std::vector<const float*> scales;
    for (const WeightMatrix& w : matrices) scales.push_back(w.scales.data);
    table.scales = reinterpret_cast<const float* const*>(keep(std::as_bytes(std::span(scales))));
    table.scale_rows = first.scales.rows;
    table.scale_cols = first.scales.cols;
  }
  if (const std::vector<gpu::TensorMap> maps = gpu::grouped_weight_maps(matrices, place_.stream.device());
      !maps.empty())
    table.maps = reinterpret_cast<const gpu::TensorMap*>(keep(std::as_bytes(std::span(maps))));
  if (!biases.empty())
    table.biases = reinterpret_cast<const float* const*>(keep(std::as_bytes(std::span(biases))));
  return table;
}

DeviceRope DeviceWeights::upload_rope(const RopeTraits& rope) {
  return {.inv_freq = reinterpret_cast<const float*>(keep(std::as_bytes(std::span(rope.inv_freq)))),
      .long_inv_freq = reinterpret_cast<const float*>(keep(std::as_bytes(std::span(rope.long_inv_freq))))};
}

const std::byte* DeviceWeights::keep(std::span<const std::byte> bytes) {
  kept_.push_back(place_.memory.allocate(gpu::ArenaKind::kWeights, std::ssize(bytes), place_.stream));
  gpu::copy_to_device(kept_.back().data(), bytes.data(), std::ssize(bytes), place_.stream);
  return kept_.back().data();
}

}  // namespace cheetah
