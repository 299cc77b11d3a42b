// SPDX-License-Identifier: MIT
#pragma once
// The operations of a transformer layer on the CPU (transformer.h says what they are for). What a row comes to depends
// on its own sequence alone: every kernel computes each row by itself, in an order that does not change with the batch.
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/activation/activation.h"
#include "kernels/context.h"
#include "kernels/moe/moe.h"
#include "kernels/norm/norm.h"
#include "model/batch_rows.h"
#include "model/layer_state.h"
#include "model/model.h"
#include "model/weights.h"

namespace cheetah {

// One step's batch, and what follows from it.
struct CpuStep {
  const ForwardBatch& batch;
  KvPool& pool;
  std::span<float> to_logits;
  const BatchRows& rows;

  int64_t num_rows() const { return std::ssize(batch.tokens); }
  int64_t num_logits() const { return std::ssize(batch.logit_rows); }
  int64_t num_wanted() const { return std::ssize(rows.wanted); }
  bool wants_all_rows() const { return rows.wants_all; }
};

// A layer's matrices of one role: one for each head or expert.
struct CpuMatrices {
  std::span<const WeightMatrix> matrices;
  std::span<const float* const> biases = {};  // empty: none
};

struct CpuLayerTables {
  CpuMatrices k_up, v_up, gate_up, gate, up, down;
};

// The experts that a step's rows go to.
struct CpuRoutes {
  int64_t count = 0;  // rows * top_k
  const ExpertOrder* order = nullptr;
  std::span<const int64_t> row_of;  // [rows, top_k]: where a row's choice stands in the experts' order
  std::span<const float> weights;   // [rows, top_k]
};

// Owns the memory of a step's routes, and nothing that one operation leaves for the next.
class CpuOps {
 public:
  using Number = float;
  using Scratch = Buffer;
  using Step = CpuStep;
  using Routes = CpuRoutes;
  using NormArgs = cheetah::NormArgs;
  using GatedArgs = cheetah::GatedArgs;
  using AttentionArgs = cheetah::AttentionArgs;
  template <class Y>
  using GemmArgs = cheetah::GemmArgs;
  static constexpr bool kAddsInProducts = false;
  static constexpr bool kGatesInProducts = false;
  static constexpr bool kAddsAndNorms = false;

  CpuOps(const ModelTraits& traits, const ModelWeights& weights, const CpuContext& context)
      : traits_(traits), weights_(weights), context_(context) {}

  template <class N = float>
  N* take(Buffer& scratch, int64_t count) {  // growing forgets the contents; a warm step allocates nothing
    const auto bytes = count * static_cast<int64_t>(sizeof(N));
    if (scratch.size() < bytes) scratch = Buffer(bytes);
    return scratch.as<N>();
  }
  CpuLayerTables tables(size_t layer) const;

  void embed_tokens(const CpuStep& step, const WeightMatrix& table, float scale, float* y);
  void embed_positions(const CpuStep& step, const WeightMatrix& table, float* y);
  void gemm(const GemmArgs<float>& args, Finish finish) {
    cheetah::gemm(args, {context_.pool, finish.exact ? Precision::kExact : context_.precision});
  }
  void rms_norm(const NormArgs& args) { cheetah::rms_norm(args, context_); }
  void layer_norm(const NormArgs& args) { cheetah::layer_norm(args, context_); }
  void add_scaled(const float* x, float scale, float* y, int64_t count) {
    cheetah::add_scaled(x, scale, y, count, context_);
  }
  void clip(float* x, float limit, int64_t count) { cheetah::clip(x, limit, count, context_); }
  void copy_rows(int64_t rows, int64_t cols, Rows<const float> x, Rows<float> y);
  void copy_wanted(const CpuStep& step, const float* x, float* y, int64_t width);
  void keep_hidden(const CpuStep& step, const float* x);
  float* logits(const CpuStep& step);
  void finish_logits(float* logits, int64_t count, float scale, float cap);

  // Norms, rotation and cache are three kernels here.
  bool finish_qkv(const CpuStep&, size_t, const Qkv<float>&, const QkvFinish&) { return false; }
  void rotate(const CpuStep& step, const HeadRows<float>& x, int64_t heads, bool local);
  void write_kv(const CpuStep& step, size_t layer, Rows<const float> keys, Rows<const float> values);
  AttentionArgs attention_args(const CpuStep& step, size_t layer) const;  // with the layer's cache
  void attention(const AttentionArgs& args) { cheetah::attention(args, context_); }
  void multiply_heads(
      const CpuMatrices& w, int64_t rows, const HeadRows<const float>& x, const HeadRows<float>& y);

  void activate(Activation kind, float* x, int64_t count) { cheetah::activate(kind, x, count, context_); }
  void gated_activation(const GatedArgs& args) { cheetah::gated_activation(args, context_); }
  void clamped_swiglu(const ClampedSwigluArgs& args) { cheetah::clamped_swiglu(args, context_); }
  CpuRoutes route(const RouterArgs& args);
  void gather_rows(const CpuRoutes& routes, const float* x, float* y);
  void multiply_experts(
      const CpuMatrices& w, const CpuRoutes& routes, Rows<const float> x, Rows<float> y, Finish);
  void fill_zero(float* y, int64_t count) { std::fill_n(y, count, 0.f); }
  void combine_experts(const CpuRoutes& routes, int64_t rows, const float* out, float* y);

 private:
  const ModelTraits& traits_;
  const ModelWeights& weights_;
  CpuContext context_;
  std::vector<int32_t> expert_ids_;  // what CpuRoutes points into
  std::vector<float> expert_weights_;
  std::vector<int64_t> expert_row_;
  ExpertOrder order_;
  std::vector<int64_t> head_offsets_;
};

}  // namespace cheetah
