// SPDX-License-Identifier: MIT
#pragma once
// The operations of a transformer layer on a CUDA device (transformer.h says what they are for), in T = float (exact)
// or Bf16 (native) activations. All of them run in one stream, in the order they are called.
#include "kernels/activation/activation_cuda.h"
#include "kernels/moe/moe_cuda.h"
#include "kernels/norm/norm_cuda.h"
#include "kernels/rope/rope_cuda.h"
#include "model/cuda/device_scratch.h"
#include "model/cuda/device_weights.h"
#include "model/cuda/step_inputs.h"
#include "model/layer_state.h"

namespace cheetah {

// One step as the device sees it.
struct CudaStep {
  const StepInputs& inputs;
  KvPool& pool;

  int64_t num_rows() const { return inputs.attention(0).rows; }
  int64_t num_logits() const { return inputs.num_logits(); }
  int64_t num_wanted() const { return inputs.num_logits() + inputs.num_hidden(); }
  bool wants_all_rows() const { return inputs.wants_all_rows(); }
};

// The experts that a step's rows go to.
struct CudaRoutes {
  int64_t count = 0;  // rows * top_k
  gpu::ExpertOrder order;
  const float* weights = nullptr;  // [rows, top_k]
};

// Owns the memory that operations need besides their operands, the routes, and a step's results. Moves of scratch
// memory are counted: recorded pointers are good until the next.
template <class T>
class CudaOps {
 public:
  using Number = T;
  using Scratch = DeviceScratch;
  using Step = CudaStep;
  using Routes = CudaRoutes;
  using NormArgs = gpu::NormArgs<T>;
  using GatedArgs = gpu::GatedArgs<T>;
  using AttentionArgs = gpu::AttentionArgs<T>;
  template <class Y>
  using GemmArgs = gpu::GemmArgs<T, Y>;
  static constexpr bool kAddsInProducts = true;
  static constexpr bool kGatesInProducts = true;
  static constexpr bool kAddsAndNorms = true;

  CudaOps(const ModelTraits& traits, const DeviceWeights& device, const DevicePlace& place)
      : traits_(traits), device_(device), place_(place) {}

  template <class N = T>
  N* take(DeviceScratch& scratch, int64_t count) {
    if (scratch.reserve(count * static_cast<int64_t>(sizeof(N)), place_)) ++moves_;
    return scratch.as<N>();
  }
  int64_t moves() const { return moves_; }
  int32_t* sampled_ids(int64_t count);  // room for what is chosen from a step's logits
  const DeviceLayerTables& tables(size_t layer) const { return device_.tables(layer); }

  void embed_tokens(const CudaStep& step, const WeightMatrix& table, float scale, T* y);
  void embed_positions(const CudaStep& step, const WeightMatrix& table, T* y);
  template <class Y>
  void gemm(gpu::GemmArgs<T, Y> args, Finish finish);
  void rms_norm(const NormArgs& args) { gpu::rms_norm(args, place_.stream); }
  void layer_norm(const NormArgs& args) { gpu::layer_norm(args, place_.stream); }
  void add_scaled(const T* x, float scale, T* y, int64_t count) {
    gpu::add_scaled(x, scale, y, count, place_.stream);
  }
  void clip(T* x, float limit, int64_t count) { gpu::clip(x, limit, count, place_.stream); }
  void add_and_norm(const gpu::AddAndNormArgs<T>& args) { gpu::add_and_norm(args, place_.stream); }
  void copy_rows(int64_t rows, int64_t cols, Rows<const T> x, Rows<T> y);
  void copy_wanted(const CudaStep& step, const T* x, T* y, int64_t width);
  void keep_hidden(const CudaStep& step, const T* x);
  float* logits(const CudaStep& step) { return take<float>(logits_, step.num_logits() * traits_.vocab); }
  const float* logits() const { return logits_.as<float>(); }  // [logit rows, vocab]
  const float* hidden() const { return hidden_.as<float>(); }  // [hidden rows, hidden]
  void finish_logits(float* logits, int64_t count, float scale, float cap) {
    gpu::finish_logits(logits, count, scale, cap, place_.stream);
  }

  // In one kernel where a head fits it: tells whether it does.
  bool finish_qkv(const CudaStep& step, size_t layer, const Qkv<T>& qkv, const QkvFinish& finish);
  void rotate(const CudaStep& step, const HeadRows<T>& x, int64_t heads, bool local);
  void write_kv(const CudaStep& step, size_t layer, Rows<const T> keys, Rows<const T> values) {
    gpu::write_kv(kv_write_args(step, layer, keys, values), place_.stream);
  }
  AttentionArgs attention_args(
      const CudaStep& step, size_t layer);  // with the layer's cache and scratch memory
  void attention(const AttentionArgs& args) { gpu::attention(args, place_.stream); }
  void multiply_heads(
      const gpu::WeightMatrices& w, int64_t rows, const HeadRows<const T>& x, const HeadRows<T>& y);

  void activate(Activation kind, T* x, int64_t count) { gpu::activate(kind, x, count, place_.stream); }
  void gated_activation(const GatedArgs& args) { gpu::gated_activation(args, place_.stream); }
  void clamped_swiglu(const gpu::ClampedSwigluArgs<T>& args) { gpu::clamped_swiglu(args, place_.stream); }
  CudaRoutes route(const RouterArgs& args);
  void gather_rows(const CudaRoutes& routes, const T* x, T* y);
  void multiply_experts(
      const gpu::WeightMatrices& w, const CudaRoutes& routes, Rows<const T> x, Rows<T> y, Finish finish = {});
  void fill_zero(T* y, int64_t count) {
    gpu::fill_bytes(y, 0, count * static_cast<int64_t>(sizeof(T)), place_.stream);
  }
  void combine_experts(const CudaRoutes& routes, int64_t rows, const T* out, T* y);

 private:
  void copy_dense(gpu::CopyRowsArgs<T, T> args, int64_t width);
  gpu::KvWriteArgs<T> kv_write_args(
      const CudaStep& step, size_t layer, Rows<const T> keys, Rows<const T> values) const;
  gpu::RopeAngles angles(const CudaStep& step, bool local) const;

  const ModelTraits& traits_;
  const DeviceWeights& device_;
  DevicePlace place_;
  int64_t moves_ = 0;
  DeviceScratch widened_, narrowed_, attention_counters_, attention_parts_;
  DeviceScratch expert_ids_, expert_weights_, expert_order_;
  DeviceScratch logits_, hidden_, sampled_ids_;
};

}  // namespace cheetah
