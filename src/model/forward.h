#pragma once
// The one transformer on the CPU: every family is this code, steered by its traits.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/context.h"
#include "model/model.h"
#include "model/weights.h"

namespace cheetah {

// F32 numbers that only ever grow, so that a warm step allocates nothing. Growing forgets the contents.
class FloatScratch {
 public:
  float* take(int64_t count) {
    const auto bytes = count * static_cast<int64_t>(sizeof(float));
    if (buffer_.size() < bytes) buffer_ = Buffer(bytes);
    return buffer_.as<float>();
  }

 private:
  Buffer buffer_;
};

// Rows of a matrix in a buffer.
struct Rows {
  float* data = nullptr;
  int64_t stride = 0;  // elements between rows
};

// Owns one runner's activations. What a row comes to depends on its own sequence alone: every kernel below
// computes each row by itself, in an order that does not change with the batch.
class Forward {
 public:
  Forward(const ModelTraits& traits, const ModelWeights& weights, const CpuContext& context)
      : traits_(traits), weights_(weights), context_(context) {}
  void run(const ForwardBatch& batch, KvPool& pool, std::span<float> logits);

 private:
  struct RopeGroup {  // neighbouring tokens that turn by the same frequencies
    int64_t begin = 0;
    int64_t count = 0;
    bool is_long = false;
  };

  struct LayerCache {
    PagedKv kv;
    std::span<const AttentionSequence> sequences;  // with the pages of the layer's group
  };

  void prepare(const ForwardBatch& batch);
  void embed_tokens(const ForwardBatch& batch);
  void run_layer(size_t index, const ForwardBatch& batch, KvPool& pool);
  void pick_rows(const ForwardBatch& batch, int64_t attended_width);
  void add_residual(const Norm& out_norm);
  void write_outputs(const ForwardBatch& batch, std::span<float> logits);
  void write_logits(const float* x, std::span<float> logits);

  // forward_attention.cpp: from normed rows to attended_, the heads' outputs side by side.
  void attend(const float* x, size_t index, const LayerCache& cache);
  void project_qkv(const float* x, const AttentionWeights& w);
  void normalize_qk(const AttentionWeights& w);
  void rotate(const Rows& rows, int64_t heads, int64_t head_stride, const RopeTraits& rope);

  // forward_mla.cpp: the same with latent attention.
  void attend_latent(const float* x, size_t index, const LayerCache& cache);
  Rows project_latent_queries(const float* x, const AttentionWeights& w);
  void per_head(std::span<const WeightMatrix> heads, const Rows& x, int64_t x_step, const Rows& y,
                int64_t y_step);

  // forward_mlp.cpp: y [rows_, hidden] of x [rows_, hidden].
  void run_mlp(const MlpWeights& w, const float* x, float* y);
  void run_moe(const MoeWeights& w, const float* x, float* y);
  void route_tokens(const MoeWeights& w, const float* x);
  void run_experts(const MoeWeights& w);
  void combine_experts(float* y);

  void linear(const Linear& layer, const float* x, int64_t x_stride, Rows y);
  const float* normed(const Norm& norm, const float* x, float* y);
  float attention_scale(size_t index) const {
    return traits_.attention_scale * traits_.layers[index].attention_factor;
  }

  const ModelTraits& traits_;
  const ModelWeights& weights_;
  CpuContext context_;

  int64_t rows_ = 0;  // rows of x_ now: all tokens, and from the last layer's middle the wanted ones
  std::vector<int32_t> positions_;
  std::vector<RopeGroup> groups_;
  FloatScratch x_buffer_, picked_x_, normed_, qkv_, attended_buffer_, picked_attended_, branch_, inner_;
  FloatScratch latent_q_, latent_kv_, latent_out_, low_rank_;
  FloatScratch router_, gathered_, expert_inner_, expert_out_;
  float* x_ = nullptr;         // [rows_, hidden]: the residual stream
  float* attended_ = nullptr;  // [rows_, attended_width]
  Rows q_, k_, v_;
  std::vector<int32_t> expert_ids_;  // [rows_, top_k]
  std::vector<float> expert_weights_;
  std::vector<int64_t> expert_row_;  // where (token, choice) went
  ExpertOrder order_;
  std::vector<int64_t> head_offsets_;
};

}  // namespace cheetah
