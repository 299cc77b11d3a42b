// SPDX-License-Identifier: MIT
// Models of random weights in the shapes of known ones: for benchmarks, where only sizes matter.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "kernels/quant/quant.h"
#include "model/model_header.h"
#include "model/model_state.h"
#include "model/rope_scaling.h"

namespace cheetah {
namespace {

struct Preset {
  std::string_view name;
  int64_t hidden;
  int64_t ffn;
  int64_t layers;
  int64_t heads;
  int64_t kv_heads;
  int64_t vocab;
  bool tied;
  double theta;
  int64_t head_dim = 0;  // 0: hidden / heads
  void (*adjust)(ModelTraits&) = nullptr;
};

// Experts in every layer, the chosen ones' weights adding up to one, and norms of each head.
void as_qwen3_moe(ModelTraits& traits, int64_t experts, int64_t top_k, int64_t expert_hidden) {
  traits.qk_norm = true;
  traits.moe = {.experts = experts, .top_k = top_k, .expert_hidden = expert_hidden, .normalize = true};
  for (LayerTraits& layer : traits.layers) layer.moe = true;
}

// Five layers of six see a window and have positions of their own.
void as_gemma3(ModelTraits& traits) {
  constexpr int64_t kWindow = 1024;
  traits.qk_norm = traits.post_norm = true;
  traits.activation = Activation::kGeluTanh;
  traits.norm_weight_offset = 1.f;
  traits.embedding_scale = std::sqrt(static_cast<float>(traits.hidden));
  traits.attention_scale = 1.f / std::sqrt(static_cast<float>(traits.hidden / traits.heads));
  traits.local_rope = make_rope({.theta = 10000.0, .rotary_dim = traits.head_dim});
  for (size_t i = 0; i < traits.layers.size(); ++i)
    if (i % 6 != 5) traits.layers[i] = {.window = kWindow, .local_rope = true};
}

constexpr std::array kPresets = {
    Preset{"llama-134m", 768, 2048, 12, 12, 12, 32000, false, 10000.0},
    Preset{"tiny-128k", 256, 768, 4, 4, 4, 131072, true, 10000.0},  // what a large vocabulary costs by itself
    Preset{"llama-1b", 2048, 8192, 16, 32, 8, 128256, true, 500000.0},
    Preset{"llama-8b", 4096, 14336, 32, 32, 8, 128256, false, 500000.0},
    Preset{"llama-70b", 8192, 28672, 80, 64, 8, 128256, false, 500000.0},
    Preset{"moe-tiny", 256, 0, 2, 4, 2, 32000, true, 10000.0, 64,
        [](ModelTraits& traits) { as_qwen3_moe(traits, 8, 2, 128); }},
    Preset{"qwen3-30b-a3b", 2048, 0, 48, 32, 4, 151936, false, 1e6, 128,
        [](ModelTraits& traits) { as_qwen3_moe(traits, 128, 8, 768); }},
    Preset{"gemma3-27b", 5376, 21504, 62, 32, 16, 262144, true, 1e6, 128, as_gemma3},
};

const Preset& find_preset(const std::string& name) {
  constexpr std::string_view kPrefix = "random:";
  std::string known;
  for (const Preset& preset : kPresets) {
    if (name == preset.name || name == std::string(kPrefix) + std::string(preset.name)) return preset;
    known += (known.empty() ? "" : ", ") + std::string(kPrefix) + std::string(preset.name);
  }
  throw UsageError(format("no random model \"{}\"; there are {}", printable(name), known));
}

ModelTraits traits_of_preset(const Preset& preset) {
  ModelTraits traits;
  traits.family = "llama";
  traits.vocab = preset.vocab;
  traits.hidden = preset.hidden;
  traits.ffn = preset.ffn;
  traits.heads = preset.heads;
  traits.kv_heads = preset.kv_heads;
  traits.head_dim = preset.head_dim ? preset.head_dim : preset.hidden / preset.heads;
  traits.max_positions = 131072;
  traits.layers.resize(static_cast<size_t>(preset.layers));
  traits.norm_eps = 1e-5f;
  traits.attention_scale = 1.f / std::sqrt(static_cast<float>(traits.head_dim));
  traits.rope = make_rope({.theta = preset.theta, .rotary_dim = traits.head_dim});
  traits.tied_embeddings = preset.tied;
  if (preset.adjust) preset.adjust(traits);
  return traits;
}

// Fills matrices by repeating one tile of random rows per row length, so that gigabytes take seconds.
class RandomFiller {
 public:
  RandomFiller(DType dtype, ThreadPool& pool, ModelWeights& into) : dtype_(dtype), pool_(pool), into_(into) {}

  // Matrices of one row length, side by side in one buffer.
  std::vector<Linear> matrices(std::initializer_list<int64_t> rows, int64_t cols) {
    return matrices(rows, cols, dtype_);
  }
  std::vector<Linear> matrices(std::initializer_list<int64_t> rows, int64_t cols, DType dtype) {
    int64_t total = 0;
    for (const int64_t count : rows) total += count;
    const int64_t stride = row_bytes(dtype, cols);
    std::byte* data = into_.owned.take(total * stride);
    fill(data, total, cols, dtype);
    std::vector<Linear> result;
    for (const int64_t count : rows) {
      result.push_back({.w = {.dtype = dtype, .rows = count, .cols = cols, .data = data}});
      data += count * stride;
    }
    return result;
  }
  Linear matrix(int64_t rows, int64_t cols) { return matrix(rows, cols, dtype_); }
  Linear matrix(int64_t rows, int64_t cols, DType dtype) { return matrices({rows}, cols, dtype).front(); }

  Norm ones(int64_t size) {
    auto* weight = reinterpret_cast<float*>(into_.owned.take(size * 4));
    std::fill_n(weight, size, 1.f);
    return {.weight = weight};
  }

 private:
  const std::vector<std::byte>& tile(int64_t cols, DType dtype) {
    std::vector<std::byte>& bytes = tiles_[{cols, dtype}];
    if (!bytes.empty()) return bytes;
    constexpr int64_t kTileElements = 1 << 18;
    const int64_t rows = kTileElements / cols + 1, stride = row_bytes(dtype, cols);
    bytes.resize(static_cast<size_t>(rows * stride));
    Philox random(1, static_cast<uint64_t>(cols));
    std::vector<float> row(static_cast<size_t>(cols));
    const float deviation = 1.f / std::sqrt(static_cast<float>(cols));
    for (int64_t r = 0; r < rows; ++r) {
      for (float& value : row) value = deviation * random.next_normal();
      quantize_row(dtype, row.data(), bytes.data() + r * stride, cols);
    }
    return bytes;
  }

  void fill(std::byte* data, int64_t rows, int64_t cols, DType dtype) {
    const std::vector<std::byte>& from = tile(cols, dtype);
    const int64_t stride = row_bytes(dtype, cols), step = static_cast<int64_t>(from.size()) / stride;
    pool_.parallel_for((rows + step - 1) / step, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        std::memcpy(data + i * step * stride, from.data(),
            static_cast<size_t>(std::min(step, rows - i * step) * stride));
    });
  }

  DType dtype_;
  ThreadPool& pool_;
  ModelWeights& into_;
  std::map<std::pair<int64_t, DType>, std::vector<std::byte>> tiles_;
};

// Routers of block formats are stored in F32, as files in them have it.
void fill_experts(MoeWeights& moe, const ModelTraits& traits, DType dtype, RandomFiller& fill) {
  const int64_t hidden = traits.hidden, inner = traits.moe.expert_hidden;
  moe.router =
      fill.matrix(traits.moe.experts, hidden, traits_of(dtype).block_elements > 1 ? DType::kF32 : dtype);
  for (int64_t e = 0; e < traits.moe.experts; ++e) {
    const std::vector<Linear> gate_up = fill.matrices({inner, inner}, hidden);
    moe.gate.push_back(gate_up[0].w);
    moe.up.push_back(gate_up[1].w);
    moe.down.push_back(fill.matrix(hidden, inner).w);
  }
}

ModelWeights random_weights(const ModelTraits& traits, DType dtype) {
  ModelWeights weights;
  ThreadPool pool;
  RandomFiller fill(dtype, pool, weights);
  const int64_t hidden = traits.hidden, width = traits.heads * traits.head_dim,
                kv = traits.kv_heads * traits.head_dim;
  weights.embedding = fill.matrix(traits.vocab, hidden).w;
  weights.head.w = traits.tied_embeddings ? weights.embedding : fill.matrix(traits.vocab, hidden).w;
  weights.final_norm = fill.ones(hidden);
  for (size_t i = 0; i < traits.layers.size(); ++i) {
    LayerWeights& layer = weights.layers.emplace_back();
    layer.attention_in = fill.ones(hidden);
    layer.mlp_in = fill.ones(hidden);
    if (traits.post_norm) layer.attention_out = fill.ones(hidden), layer.mlp_out = fill.ones(hidden);
    const std::vector<Linear> qkv = fill.matrices({width, kv, kv}, hidden);
    layer.attention.q = qkv[0], layer.attention.k = qkv[1], layer.attention.v = qkv[2];
    layer.attention.o = fill.matrix(hidden, width);
    if (traits.qk_norm)
      layer.attention.q_norm = fill.ones(traits.head_dim),
      layer.attention.k_norm = fill.ones(traits.head_dim);
    if (traits.layers[i].moe) {
      fill_experts(layer.moe, traits, dtype, fill);
      continue;
    }
    const std::vector<Linear> gate_up = fill.matrices({traits.ffn, traits.ffn}, hidden);
    layer.mlp.gate = gate_up[0], layer.mlp.up = gate_up[1];
    layer.mlp.down = fill.matrix(hidden, traits.ffn);
  }
  join_neighbours(weights);
  return weights;
}

}  // namespace

ModelTraits random_traits(const std::string& preset) { return traits_of_preset(find_preset(preset)); }

std::unique_ptr<Model> Model::random(const std::string& preset, DType dtype) {
  const Preset& sizes = find_preset(preset);
  if (!can_quantize_to(dtype))
    throw UsageError(format(
        "random weights cannot be made in {}; use F32, F16, BF16, Q8_0, Q4_0 or Q4_K", name_of(dtype)));
  auto state = std::make_unique<State>();
  state->name = format("random:{}", sizes.name);
  state->traits = traits_of_preset(sizes);
  state->weights = random_weights(state->traits, dtype);
  return std::unique_ptr<Model>(new Model(std::move(state)));
}

}  // namespace cheetah
