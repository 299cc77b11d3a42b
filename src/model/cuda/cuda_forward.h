#pragma once
// The one transformer on a CUDA device: forward.h's steps, in T = float (exact) or Bf16 (native) activations.
#include <memory>

#include "kernels/decode_chain/decode_chain.h"
#include "kernels/moe/moe_cuda.h"
#include "kernels/rope/rope_cuda.h"
#include "model/cuda/device_scratch.h"
#include "model/cuda/device_weights.h"
#include "model/cuda/step_graphs.h"
#include "model/cuda/step_inputs.h"

namespace cheetah {

template <class T>
struct DeviceRows {
  T* data = nullptr;
  int64_t stride = 0;  // elements between rows
};

// Room for rows of x in FP8, where weights are.
inline int64_t narrowed_bytes(DType weights, int64_t rows, int64_t cols) {
  return weights == DType::kF8E4M3 ? gpu::narrowed_x_bytes(rows, cols) : 0;
}

// What a product does with its sums besides storing them.
struct Finish {
  bool gated = false;  // silu(first half) * second half
  bool adds = false;   // to what is there
};

// Owns one runner's activations. Everything runs in one stream; the host waits only for what it asked to get
// back. Plain decode steps are filled up to a shape, recorded the second time it comes and replayed from then
// on.
template <class T>
class CudaForward {
 public:
  CudaForward(const ModelTraits& traits, const DeviceWeights& weights, const DevicePlace& place)
      : traits_(traits), device_(weights), weights_(weights.weights()), place_(place), inputs_(place) {
    make_chain();
  }
  void run(const ForwardBatch& batch, KvPool& pool, std::span<float> logits);

  // Sends a step on its way; what it computes is on the device once the stream has got there. Rows that are
  // fed take their token from sampled_ids().
  void start(const ForwardBatch& batch, std::span<const FedToken> fed, KvPool& pool);
  const float* logits() const { return logits_.as<float>(); }  // [logit rows, vocab]
  const float* hidden() const { return hidden_.as<float>(); }  // [hidden rows, hidden]
  const int32_t* tokens() const { return inputs_.tokens(); }   // [rows]
  int32_t* sampled_ids(int64_t count);  // room for what is chosen from the step's logits
  const GraphUse& graph_use() const { return graphs_.use(); }

 private:
  using Rows = DeviceRows<T>;
  struct LayerCache {
    PagedKv kv;
    gpu::AttentionBatch batch;  // with the pages of the layer's group
  };

  // cuda_forward.cpp
  void load(const ForwardBatch& batch, std::span<const FedToken> fed, KvPool& pool);
  void compute(KvPool& pool);
  void launch_step(KvPool& pool);
  void forget_graphs_of_other_memory(KvPool& pool);
  void embed_tokens(T* x);
  void run_layer(size_t index, KvPool& pool);
  void pick_rows(int64_t attended_width);
  void enter(const Norm* norm);
  void join_branch(const Norm& out_norm, const Norm* next);
  void compute_outputs();
  void fetch_outputs(const ForwardBatch& batch, std::span<float> logits);
  const T* normed(const Norm& norm, const T* x, T* y);
  template <class Y>
  void linear(const Linear& layer, const T* x, int64_t x_stride, DeviceRows<Y> y, Finish finish = {});
  // A branch goes straight into the residual stream where nothing stands between them.
  bool adds_branches_directly() const { return !traits_.post_norm && traits_.residual_scale == 1.f; }

  // cuda_chain.cpp: all layers of a small decode step as one kernel, where the model allows it.
  void make_chain();
  bool runs_as_chain(KvPool& pool) const;
  void give_chain_the_cache(KvPool& pool);
  void launch_chain(KvPool& pool);

  // cuda_attention.cpp: from normed rows to attended_, the heads' outputs side by side.
  void attend(const T* x, size_t index, const LayerCache& cache);
  void project_qkv(const T* x, const AttentionWeights& w);
  void finish_qkv(size_t index, const LayerCache& cache);
  void normalize_qk(const AttentionWeights& w);
  gpu::RopeTurns turns(bool local) const;
  void rotate(const Rows& rows, int64_t heads, int64_t head_stride, bool local);
  gpu::AttentionScratch attention_scratch(int64_t value_dim);
  void attend_latent(const T* x, size_t index, const LayerCache& cache);
  Rows project_latent_queries(const T* x, size_t index);
  void per_head(const gpu::WeightMatrices& heads, const Rows& x, int64_t x_step, const Rows& y,
                int64_t y_step);
  void normalize_part(T* x, int64_t stride, int64_t cols, const Norm& norm);

  // cuda_mlp.cpp: y [rows_, hidden] of x [rows_, hidden], stored or added to what is there.
  void run_mlp(const MlpWeights& w, const T* x, T* y, bool adds);
  T* run_inner(const MlpWeights& w, const T* x);
  bool gates_in_product(const MlpWeights& w) const {
    return w.gate_up.present() && traits_.activation == Activation::kSilu;
  }
  bool keeps_gates(const MlpWeights& w) const { return w.gate.present() && !gates_in_product(w); }
  void run_moe(size_t index, const T* x, T* y, bool adds);
  void route_tokens(const MoeWeights& w, const T* x);
  T* run_experts(const DeviceLayerTables& tables, const T* x);
  bool gates_experts_in_product(const DeviceLayerTables& tables) const {
    return tables.gate_up.count > 0 && traits_.activation == Activation::kSilu && !traits_.moe.clamped_swiglu;
  }
  void gate_experts(T* gate, int64_t rows);

  template <class Number = T>
  Number* take(DeviceScratch& scratch, int64_t count) {
    if (scratch.reserve(count * static_cast<int64_t>(sizeof(Number)), place_)) ++moves_;
    return scratch.as<Number>();
  }
  float attention_scale(size_t index) const {
    return traits_.attention_scale * traits_.layers[index].attention_factor;
  }
  gpu::Stream& stream() { return place_.stream; }

  const ModelTraits& traits_;
  const DeviceWeights& device_;
  const ModelWeights& weights_;
  DevicePlace place_;
  StepInputs inputs_;

  std::unique_ptr<gpu::DecodeChain> chain_;  // none: this model takes the long way
  bool chain_has_head_ = false;
  StepGraphs graphs_;
  std::optional<DecodeShape> shape_;  // of this step, where it has one
  int64_t moves_ = 0;                 // of scratch memory: recorded pointers are good until the next
  int64_t recorded_moves_ = 0;        // of scratch memory and inputs, when the graphs were recorded
  std::vector<const std::byte*> cache_, recorded_cache_;  // keys and values of each layer

  int64_t rows_ = 0;  // rows of x_ now: all tokens, and from the last layer's middle the wanted ones
  DeviceScratch x_buffer_, picked_x_, normed_, qkv_, attended_buffer_, picked_attended_, branch_, inner_;
  DeviceScratch latent_q_, latent_kv_, latent_out_, low_rank_;
  DeviceScratch router_, expert_ids_, expert_weights_, order_buffer_, gathered_, expert_inner_, expert_out_;
  DeviceScratch logits_, hidden_, sampled_ids_, widened_, narrowed_, attention_counters_, attention_parts_;
  gpu::PinnedBuffer host_logits_;
  T* x_ = nullptr;         // [rows_, hidden]: the residual stream
  const T* in_ = nullptr;  // [rows_, hidden]: what the next part of a layer takes
  T* attended_ = nullptr;  // [rows_, attended_width]
  Rows q_, k_, v_;
  gpu::ExpertOrder order_;
};

}  // namespace cheetah
