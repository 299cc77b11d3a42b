// SPDX-License-Identifier: MIT
// Blocks whose attention and MLP both read the layer's input, held to plain loops. A sequence of one token attends to
// itself alone: attention's output is its value, whatever queries and keys are.
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "base/error.h"
#include "base/random.h"
#include "model/forward.h"

namespace cheetah {
namespace {

using Vector = std::vector<double>;

constexpr int64_t kHidden = 8, kFfn = 12, kVocab = 16;

struct Blocks {
  bool parallel = false, shared_norm = false, norm_bias = true;
};

struct TinyModel {
  ModelTraits traits;
  ModelWeights weights;
  std::deque<std::vector<float>> numbers;  // what the weights point into

  const float* draw(int64_t count, float around, float spread) {
    Philox random(7, numbers.size());
    std::vector<float>& drawn = numbers.emplace_back();
    for (int64_t i = 0; i < count; ++i) drawn.push_back(around + spread * random.next_normal());
    return drawn.data();
  }
  WeightMatrix matrix(int64_t rows, int64_t cols) {
    const auto* data = reinterpret_cast<const std::byte*>(draw(rows * cols, 0.f, 0.4f));
    return {.dtype = DType::kF32, .rows = rows, .cols = cols, .data = data};
  }
  Linear linear(int64_t rows, int64_t cols) { return {matrix(rows, cols), draw(rows, 0.f, 0.2f)}; }
  Norm norm() {
    return {draw(kHidden, 1.f, 0.2f), norms_have_bias(traits) ? draw(kHidden, 0.f, 0.2f) : nullptr};
  }
};

// LayerNorm before two heads that share one value, and an MLP without gates: a GPT-NeoX in small.
TinyModel make_model(const Blocks& blocks) {
  TinyModel model;
  ModelTraits& t = model.traits;
  t.parallel_blocks = blocks.parallel, t.shared_norm = blocks.shared_norm, t.norm_bias = blocks.norm_bias;
  t.vocab = kVocab, t.hidden = kHidden, t.ffn = kFfn, t.heads = 2, t.kv_heads = 1, t.head_dim = 4;
  t.norm = NormKind::kLayer;
  t.gated_mlp = false, t.activation = Activation::kGeluErf;
  t.attention_scale = 0.5f;
  t.layers.assign(2, {.rotate = false});
  ModelWeights& w = model.weights;
  w.embedding = model.matrix(kVocab, kHidden);
  w.head.w = model.matrix(kVocab, kHidden);
  w.final_norm = model.norm();
  for (size_t i = 0; i < t.layers.size(); ++i) {
    LayerWeights& layer = w.layers.emplace_back();
    layer.attention_in = model.norm();
    if (!t.shared_norm) layer.mlp_in = model.norm();
    layer.attention.q = model.linear(8, kHidden), layer.attention.o = model.linear(kHidden, 8);
    layer.attention.k = model.linear(4, kHidden), layer.attention.v = model.linear(4, kHidden);
    layer.mlp.up = model.linear(kFfn, kHidden), layer.mlp.down = model.linear(kHidden, kFfn);
  }
  return model;
}

Vector linear_of(const Linear& layer, const Vector& x) {
  Vector y;
  const auto* w = reinterpret_cast<const float*>(layer.w.data);
  for (int64_t r = 0; r < layer.w.rows; ++r) {
    double sum = layer.bias ? layer.bias[r] : 0.0;
    for (int64_t c = 0; c < layer.w.cols; ++c) sum += w[r * layer.w.cols + c] * x[static_cast<size_t>(c)];
    y.push_back(sum);
  }
  return y;
}

Vector norm_of(const Norm& norm, const Vector& x) {
  double mean = 0, squares = 0;
  for (const double v : x) mean += v / kHidden;
  for (const double v : x) squares += (v - mean) * (v - mean) / kHidden;
  Vector y;
  for (size_t i = 0; i < x.size(); ++i)
    y.push_back(
        (x[i] - mean) / std::sqrt(squares + 1e-6) * norm.weight[i] + (norm.bias ? norm.bias[i] : 0.f));
  return y;
}

Vector add(Vector x, const Vector& y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  return x;
}

Vector attention_branch(const LayerWeights& layer, const Vector& x) {
  const Vector value = linear_of(layer.attention.v, norm_of(layer.attention_in, x));
  Vector both = value;  // of two heads
  both.insert(both.end(), value.begin(), value.end());
  return linear_of(layer.attention.o, both);
}

Vector mlp_branch(const LayerWeights& layer, const Norm& norm, const Vector& x) {
  Vector inner = linear_of(layer.mlp.up, norm_of(norm, x));
  for (double& v : inner) v = 0.5 * v * (1.0 + std::erf(v / std::sqrt(2.0)));
  return linear_of(layer.mlp.down, inner);
}

Vector expected_hidden(const TinyModel& model, int32_t token) {
  const auto* row = reinterpret_cast<const float*>(model.weights.embedding.data) + token * kHidden;
  Vector x(row, row + kHidden);
  for (const LayerWeights& layer : model.weights.layers) {
    const Norm& mlp_norm = model.traits.shared_norm ? layer.attention_in : layer.mlp_in;
    const Vector attended = add(x, attention_branch(layer, x));
    x = add(attended, mlp_branch(layer, mlp_norm, model.traits.parallel_blocks ? x : attended));
  }
  return norm_of(model.weights.final_norm, x);
}

// Two sequences of one token each; with the first one's hidden state alone wanted, or both.
std::vector<float> hidden_of(const TinyModel& model, std::span<const int64_t> wanted) {
  ThreadPool pool{{.num_threads = 1, .pin = false}};
  KvPool kv(model.traits, DType::kF32, 2);
  Forward forward(model.traits, model.weights, {pool});
  const std::vector<int32_t> pages = {0, 1}, tokens = {3, 11};
  const std::array sequences = {
      AttentionSequence{
          .pages = std::span(pages).first(1), .context_tokens = 1, .query_begin = 0, .query_count = 1},
      AttentionSequence{
          .pages = std::span(pages).last(1), .context_tokens = 1, .query_begin = 1, .query_count = 1}};
  std::vector<float> hidden(wanted.size() * kHidden);
  forward.run(
      {.tokens = tokens, .sequences = sequences, .logit_rows = {}, .hidden_rows = wanted, .hidden = hidden},
      kv, {});
  return hidden;
}

void check(const Blocks& blocks) {
  const TinyModel model = make_model(blocks);
  const std::vector<int64_t> both = {0, 1}, second = {1};
  const std::vector<float> hidden = hidden_of(model, both);
  const Vector expected[] = {expected_hidden(model, 3), expected_hidden(model, 11)};
  for (size_t i = 0; i < hidden.size(); ++i)
    EXPECT_NEAR(hidden[i], expected[i / kHidden][i % kHidden], 1e-5) << i;
  EXPECT_EQ(hidden_of(model, second), std::vector<float>(hidden.begin() + kHidden, hidden.end()));
}

TEST(ParallelBlocks, OneAfterTheOtherWithoutTheTrait) { check({}); }
TEST(ParallelBlocks, BothReadTheInputThroughTheirOwnNorms) { check({.parallel = true}); }
TEST(ParallelBlocks, BothReadTheInputThroughOneNorm) { check({.parallel = true, .shared_norm = true}); }
TEST(ParallelBlocks, LayerNormsMayLackABias) {
  check({.norm_bias = false});
  check({.parallel = true, .shared_norm = true, .norm_bias = false});
}

}  // namespace
}  // namespace cheetah
