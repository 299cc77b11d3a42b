// SPDX-License-Identifier: MIT
#include "model/bind_weights.h"

#include "base/format.h"

namespace cheetah {
namespace {

std::string indexed(const std::string& pattern, int64_t index) {
  const size_t at = pattern.find("{}");
  return pattern.substr(0, at) + std::to_string(index) + pattern.substr(at + 2);
}

// The root under which the embedding stands; the first when none has it, for the message.
std::string find_root(const WeightLoader& loader, const WeightNames& names) {
  for (const std::string& root : names.roots)
    if (loader.has(root + names.embedding + ".weight")) return root;
  return names.roots.front();
}

Norm bind_layer_norm(
    WeightLoader& loader, const ModelTraits& traits, const std::string& root, const std::string& name) {
  if (name.empty()) return {};
  return bind_norm(loader, root + name, traits.hidden, norms_have_bias(traits));
}

void bind_mlp(WeightLoader& loader, const ModelTraits& traits, const WeightNames& names,
    const std::string& root, MlpWeights& into) {
  const int64_t ffn = traits.ffn;
  if (!names.gate_up.empty()) {
    into.gate_up = bind_linear(loader, names, root + names.gate_up, 2 * ffn, traits.hidden, names.mlp_bias);
    into.gate = rows_of(into.gate_up, 0, ffn);
    into.up = rows_of(into.gate_up, ffn, ffn);
  } else {
    if (traits.gated_mlp) loader.keep_together(root + names.gate + ".weight", 2 * ffn * traits.hidden);
    if (traits.gated_mlp)
      into.gate = bind_linear(loader, names, root + names.gate, ffn, traits.hidden, names.mlp_bias);
    into.up = bind_linear(loader, names, root + names.up, ffn, traits.hidden, names.mlp_bias);
  }
  into.down = bind_linear(loader, names, root + names.down, traits.hidden, ffn, names.mlp_bias);
}

void bind_layer(WeightLoader& loader, const ModelTraits& traits, const WeightNames& names,
    const std::string& root, LayerWeights& into, bool moe) {
  into.attention_in = bind_layer_norm(loader, traits, root, names.attention_in);
  into.attention_out = bind_layer_norm(loader, traits, root, names.attention_out);
  if (!traits.shared_norm) into.mlp_in = bind_layer_norm(loader, traits, root, names.mlp_in);
  into.mlp_out = bind_layer_norm(loader, traits, root, names.mlp_out);
  if (traits.has_mla)
    bind_mla(loader, traits, names, root, into.attention);
  else
    bind_attention(loader, traits, names, root, into.attention);
  if (moe)
    bind_moe(loader, traits, names, root, into.moe);
  else
    bind_mlp(loader, traits, names, root, into.mlp);
}

// A head of its own, or the embedding's matrix.
void bind_head(WeightLoader& loader, const ModelTraits& traits, const WeightNames& names,
    const std::string& embedding, ModelWeights& into) {
  if (!traits.tied_embeddings)
    for (const std::string& head : names.heads)
      if (loader.has(head + ".weight")) {
        into.embedding = loader.table(embedding, traits.vocab, traits.hidden);
        into.head.w = loader.matrix(head + ".weight", traits.vocab, traits.hidden);
        if (loader.has(head + ".bias")) into.head.bias = loader.vector(head + ".bias", {traits.vocab});
        return;
      }
  into.embedding = loader.unscaled(embedding, traits.vocab, traits.hidden);
  into.head.w = into.embedding;
}

// Buffers some checkpoints carry along, and layers past the last: multi-token prediction heads.
std::vector<std::string> ignored_parts(
    const ModelTraits& traits, const WeightNames& names, const std::string& root) {
  std::vector<std::string> ignored = names.ignored;
  ignored.insert(ignored.end(), {"rotary_emb.inv_freq", ".masked_bias", ".attn.bias", ".attention.bias",
                                    ".input_scale", ".k_scale", ".v_scale"});
  constexpr int64_t kExtraLayers = 8;
  const auto count = static_cast<int64_t>(traits.layers.size());
  for (int64_t i = 0; i < kExtraLayers; ++i) ignored.push_back(root + indexed(names.layer, count + i));
  if (traits.tied_embeddings)
    for (const std::string& head : names.heads) ignored.push_back(head + ".weight");
  return ignored;
}

}  // namespace

Linear bind_linear(WeightLoader& loader, const WeightNames& names, const std::string& name, int64_t rows,
    int64_t cols, Presence bias) {
  Linear linear;
  linear.w = names.transposed ? loader.transposed(name + ".weight", rows, cols)
                              : loader.matrix(name + ".weight", rows, cols);
  const bool wanted = bias == Presence::kYes || (bias == Presence::kIfStored && loader.has(name + ".bias"));
  if (wanted) linear.bias = loader.vector(name + ".bias", {rows});
  return linear;
}

Linear rows_of(const Linear& whole, int64_t first, int64_t rows) {
  if (!whole.present()) return {};
  Linear part = whole;
  part.w = rows_of(whole.w, first, rows);
  if (part.bias) part.bias += first;
  return part;
}

Norm bind_norm(WeightLoader& loader, const std::string& name, int64_t size, bool with_bias) {
  Norm norm;
  norm.weight = loader.vector(name + ".weight", {size});
  if (with_bias) norm.bias = loader.vector(name + ".bias", {size});
  return norm;
}

ModelWeights bind_weights(const ModelTraits& traits, const WeightNames& names, const WeightSource& source,
    const LoadOptions& options, ThreadPool& pool) {
  ModelWeights weights;
  WeightLoader loader(source, options, pool, weights);
  const std::string root = find_root(loader, names);
  bind_head(loader, traits, names, root + names.embedding + ".weight", weights);
  if (traits.learned_positions)
    weights.positions = loader.table(root + names.positions + ".weight", traits.max_positions, traits.hidden);
  weights.layers.resize(traits.layers.size());
  for (size_t i = 0; i < traits.layers.size(); ++i)
    bind_layer(loader, traits, names, root + indexed(names.layer, static_cast<int64_t>(i)), weights.layers[i],
        traits.layers[i].moe);
  weights.final_norm = bind_norm(loader, root + names.final_norm, traits.hidden, norms_have_bias(traits));
  loader.finish(ignored_parts(traits, names, root));
  join_neighbours(weights);
  return weights;
}

}  // namespace cheetah
