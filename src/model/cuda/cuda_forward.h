#pragma once
// The one transformer on a CUDA device: forward.h's steps, in T = float (exact) or Bf16 (native) activations.
#include "kernels/moe/moe_cuda.h"
#include "model/cuda/device_weights.h"
#include "model/cuda/step_inputs.h"

namespace cheetah {

// Device memory that only ever grows. Growing forgets the contents.
class DeviceScratch {
 public:
  template <class T>
  T* take(int64_t count, const DevicePlace& place) {
    const auto bytes = count * static_cast<int64_t>(sizeof(T));
    if (buffer_.size() < bytes)
      buffer_ = place.memory.allocate(gpu::ArenaKind::kWorkspace, bytes, place.stream);
    return buffer_.as<T>();
  }

 private:
  gpu::DeviceBuffer buffer_;
};

template <class T>
struct DeviceRows {
  T* data = nullptr;
  int64_t stride = 0;  // elements between rows
};

// Owns one runner's activations. Everything runs in one stream; the host waits only for what it asked to get
// back.
template <class T>
class CudaForward {
 public:
  CudaForward(const ModelTraits& traits, const DeviceWeights& weights, const DevicePlace& place)
      : traits_(traits), device_(weights), weights_(weights.weights()), place_(place), inputs_(place) {}
  void run(const ForwardBatch& batch, KvPool& pool, std::span<float> logits);

 private:
  using Rows = DeviceRows<T>;

  // cuda_forward.cpp
  void embed_tokens();
  void run_layer(size_t index, const ForwardBatch& batch, const PagedKv& kv);
  void pick_rows(const ForwardBatch& batch, int64_t attended_width);
  void add_residual(const Norm& out_norm);
  void write_outputs(const ForwardBatch& batch, std::span<float> logits);
  const T* normed(const Norm& norm, const T* x, T* y);
  template <class Y>
  void linear(const Linear& layer, const T* x, int64_t x_stride, DeviceRows<Y> y);

  // cuda_attention.cpp: from normed rows to attended_, the heads' outputs side by side.
  void attend(const T* x, size_t index, const PagedKv& kv);
  void project_qkv(const T* x, const AttentionWeights& w);
  void normalize_qk(const AttentionWeights& w);
  void rotate(const Rows& rows, int64_t heads, int64_t head_stride, bool local);
  void attend_latent(const T* x, size_t index, const PagedKv& kv);
  Rows project_latent_queries(const T* x, size_t index);
  void per_head(const gpu::WeightMatrices& heads, const Rows& x, int64_t x_step, const Rows& y,
                int64_t y_step);
  void normalize_part(T* x, int64_t stride, int64_t cols, const Norm& norm);

  // cuda_mlp.cpp: y [rows_, hidden] of x [rows_, hidden].
  void run_mlp(const MlpWeights& w, const T* x, T* y);
  void run_moe(size_t index, const T* x, T* y);
  void route_tokens(const MoeWeights& w, const T* x);
  T* run_experts(const DeviceLayerTables& tables, const T* x);

  template <class Number = T>
  Number* take(DeviceScratch& scratch, int64_t count) {
    return scratch.take<Number>(count, place_);
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

  int64_t rows_ = 0;  // rows of x_ now: all tokens, and from the last layer's middle the wanted ones
  DeviceScratch x_buffer_, picked_x_, normed_, qkv_, attended_buffer_, picked_attended_, branch_, inner_;
  DeviceScratch latent_q_, latent_kv_, latent_out_, low_rank_;
  DeviceScratch router_, expert_ids_, expert_weights_, order_buffer_, gathered_, expert_inner_, expert_out_;
  DeviceScratch logits_, hidden_;
  gpu::PinnedBuffer host_logits_;
  T* x_ = nullptr;         // [rows_, hidden]: the residual stream
  T* attended_ = nullptr;  // [rows_, attended_width]
  Rows q_, k_, v_;
  gpu::ExpertOrder order_;
};

}  // namespace cheetah
