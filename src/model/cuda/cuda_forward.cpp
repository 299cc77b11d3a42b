#include "model/cuda/cuda_forward.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "gpu/nvtx.h"
#include "kernels/activation/activation_cuda.h"
#include "kernels/embed/embed_cuda.h"
#include "kernels/norm/norm_cuda.h"

namespace cheetah {

template <class T>
void CudaForward<T>::run(const ForwardBatch& batch, KvPool& pool, std::span<float> logits) {
  const gpu::NvtxRange range("forward");
  inputs_.load(batch, traits_);
  rows_ = inputs_.attention().rows;
  if (rows_ == 0) return;
  embed_tokens();
  for (size_t i = 0; i < traits_.layers.size(); ++i) run_layer(i, batch, pool.layer(static_cast<int64_t>(i)));
  write_outputs(batch, logits);
}

template <class T>
void CudaForward<T>::embed_tokens() {
  const int64_t hidden = traits_.hidden;
  x_ = take(x_buffer_, rows_ * hidden);
  gpu::embed<T>({.table = weights_.embedding,
                 .ids = inputs_.tokens(),
                 .count = rows_,
                 .scale = traits_.embedding_scale,
                 .y = x_,
                 .y_stride = hidden},
                stream());
  if (!traits_.learned_positions) return;
  T* places = take(branch_, rows_ * hidden);
  gpu::embed<T>({.table = weights_.positions,
                 .ids = inputs_.positions(),
                 .count = rows_,
                 .y = places,
                 .y_stride = hidden},
                stream());
  gpu::add_scaled(places, 1.f, x_, rows_ * hidden, stream());
}

template <class T>
void CudaForward<T>::run_layer(size_t index, const ForwardBatch& batch, const PagedKv& kv) {
  const LayerWeights& w = weights_.layers[index];
  const int64_t hidden = traits_.hidden;
  T* scratch = take(normed_, rows_ * hidden);
  const T* in = traits_.pre_norm ? normed(w.attention_in, x_, scratch) : x_;
  if (traits_.has_mla)
    attend_latent(in, index, kv);
  else
    attend(in, index, kv);
  const int64_t width = w.attention.o.w.cols;
  // Past the last layer's attention only rows whose outputs are wanted matter.
  if (index + 1 == traits_.layers.size()) pick_rows(batch, width);
  if (rows_ == 0) return;
  T* branch = take(branch_, rows_ * hidden);
  linear<T>(w.attention.o, attended_, width, {branch, hidden});
  add_residual(w.attention_out);

  in = traits_.pre_norm ? normed(w.mlp_in, x_, scratch) : x_;
  if (traits_.layers[index].moe)
    run_moe(index, in, branch);
  else
    run_mlp(w.mlp, in, branch);
  add_residual(w.mlp_out);
}

template <class T>
void CudaForward<T>::pick_rows(const ForwardBatch& batch, int64_t attended_width) {
  const int64_t count = std::ssize(batch.logit_rows) + std::ssize(batch.hidden_rows);
  const auto pick = [&](const T* from, DeviceScratch& into, int64_t width) {
    T* picked = take(into, count * width);
    gpu::copy_rows<T, T>({.x = from,
                          .x_stride = width,
                          .source = inputs_.wanted_rows(),
                          .y = picked,
                          .y_stride = width,
                          .rows = count,
                          .cols = width},
                         stream());
    return picked;
  };
  x_ = pick(x_, picked_x_, traits_.hidden);
  attended_ = pick(attended_, picked_attended_, attended_width);
  rows_ = count;
}

// x += scale * norm(branch)
template <class T>
void CudaForward<T>::add_residual(const Norm& out_norm) {
  T* branch = take(branch_, rows_ * traits_.hidden);
  if (traits_.post_norm) normed(out_norm, branch, branch);
  gpu::add_scaled(branch, traits_.residual_scale, x_, rows_ * traits_.hidden, stream());
}

template <class T>
void CudaForward<T>::write_outputs(const ForwardBatch& batch, std::span<float> logits) {
  if (rows_ == 0) return;
  const int64_t hidden = traits_.hidden, num_logits = std::ssize(batch.logit_rows) * traits_.vocab;
  const int64_t num_hidden = std::ssize(batch.hidden_rows) * hidden;
  CHEETAH_ASSERT(std::ssize(logits) >= num_logits, "room for the logits");
  CHEETAH_ASSERT(std::ssize(batch.hidden) >= num_hidden, "room for the hidden states");
  const T* x = normed(weights_.final_norm, x_, take(normed_, rows_ * hidden));
  rows_ = std::ssize(batch.logit_rows);
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  if (host_logits_.size() < (num_logits + num_hidden) * kFloat)
    host_logits_ = gpu::PinnedBuffer((num_logits + num_hidden) * kFloat);
  auto* staged = host_logits_.as<float>();
  if (num_hidden > 0) {
    float* wide = take<float>(hidden_, num_hidden);
    gpu::copy_rows<T, float>({.x = x + rows_ * hidden,
                              .x_stride = hidden,
                              .y = wide,
                              .y_stride = hidden,
                              .rows = std::ssize(batch.hidden_rows),
                              .cols = hidden},
                             stream());
    gpu::copy_to_host(staged + num_logits, wide, num_hidden * kFloat, stream());
  }
  if (num_logits > 0) {
    float* computed = take<float>(logits_, num_logits);
    linear<float>(weights_.head, x, hidden, {computed, traits_.vocab});
    gpu::finish_logits(computed, num_logits, traits_.logit_scale, traits_.logit_soft_cap, stream());
    gpu::copy_to_host(staged, computed, num_logits * kFloat, stream());
  }
  stream().wait();
  std::copy_n(staged, num_logits, logits.data());
  std::copy_n(staged + num_logits, num_hidden, batch.hidden.data());
}

template <class T>
template <class Y>
void CudaForward<T>::linear(const Linear& layer, const T* x, int64_t x_stride, DeviceRows<Y> y) {
  gpu::gemm<T, Y>({.x = x,
                   .x_stride = x_stride,
                   .m = rows_,
                   .w = layer.w,
                   .bias = layer.bias,
                   .y = y.data,
                   .y_stride = y.stride},
                  stream());
}

template <class T>
const T* CudaForward<T>::normed(const Norm& norm, const T* x, T* y) {
  const gpu::NormArgs<T> args{.x = x,
                              .x_stride = traits_.hidden,
                              .y = y,
                              .y_stride = traits_.hidden,
                              .rows = rows_,
                              .cols = traits_.hidden,
                              .weight = norm.weight,
                              .bias = norm.bias,
                              .eps = traits_.norm_eps,
                              .weight_offset = traits_.norm_weight_offset};
  if (traits_.norm == NormKind::kRms)
    gpu::rms_norm(args, stream());
  else
    gpu::layer_norm(args, stream());
  return y;
}

template class CudaForward<float>;
template class CudaForward<Bf16>;
template void CudaForward<float>::linear<float>(const Linear&, const float*, int64_t, DeviceRows<float>);
template void CudaForward<Bf16>::linear<float>(const Linear&, const Bf16*, int64_t, DeviceRows<float>);
template void CudaForward<Bf16>::linear<Bf16>(const Linear&, const Bf16*, int64_t, DeviceRows<Bf16>);

}  // namespace cheetah
