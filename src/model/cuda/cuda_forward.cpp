#include "model/cuda/cuda_forward.h"

#include <algorithm>

#include "base/error.h"
#include "gpu/nvtx.h"
#include "kernels/activation/activation_cuda.h"
#include "kernels/embed/embed_cuda.h"
#include "kernels/norm/norm_cuda.h"

namespace cheetah {
namespace {

// How many numbers of W are widened at once, where it is stored in fewer than 16 bits a number: all, or a
// part of a large vocabulary's head.
int64_t widened_numbers(const WeightMatrix& w, bool gated) {
  constexpr int64_t kPart = int64_t{1} << 27;
  const DTypeTraits& stored = traits_of(w.dtype);
  if (stored.block_bytes >= 2 * stored.block_elements) return 0;
  return gated ? w.rows * w.cols : std::min(kPart, w.rows * w.cols);
}

}  // namespace

template <class T>
void CudaForward<T>::run(const ForwardBatch& batch, KvPool& pool, std::span<float> logits) {
  start(batch, {}, pool);
  if (!batch.tokens.empty()) fetch_outputs(batch, logits);
}

template <class T>
void CudaForward<T>::start(const ForwardBatch& batch, std::span<const FedToken> fed, KvPool& pool) {
  const gpu::NvtxRange range("step");
  load(batch, fed, pool);
  if (!batch.tokens.empty()) compute(pool);
}

template <class T>
int32_t* CudaForward<T>::sampled_ids(int64_t count) {
  constexpr int64_t kLeast = 1024;
  return take<int32_t>(sampled_ids_, std::max(kLeast, count));
}

template <class T>
void CudaForward<T>::load(const ForwardBatch& batch, std::span<const FedToken> fed, KvPool& pool) {
  shape_ = decode_shape(batch);
  sampled_ids(0);
  inputs_.load(batch, traits_, fed, shape_);
  if (!shape_) return;
  if (runs_as_chain(pool)) give_chain_the_cache(pool);
  graphs_.count_rows(std::ssize(batch.tokens), *shape_);
  forget_graphs_of_other_memory(pool);
}

// From the inputs to logits_ and hidden_ on the device.
template <class T>
void CudaForward<T>::compute(KvPool& pool) {
  if (!shape_ || !graphs_.seen_before(*shape_)) return launch_step(pool);
  const gpu::Graph* graph = graphs_.find(*shape_);
  if (!graph) {
    const int64_t moves = moves_;
    graph = &graphs_.add(*shape_, gpu::Graph::record(stream(), [&] { launch_step(pool); }));
    CHEETAH_ASSERT(moves == moves_, "the step before took all the memory that a shape needs");
  }
  graph->launch(stream());
}

template <class T>
void CudaForward<T>::launch_step(KvPool& pool) {
  rows_ = inputs_.attention(0).rows;
  if (runs_as_chain(pool)) return launch_chain(pool);
  embed_tokens(take(x_buffer_, rows_ * traits_.hidden));
  enter(traits_.pre_norm ? &weights_.layers.front().attention_in : nullptr);
  for (size_t i = 0; i < traits_.layers.size(); ++i) run_layer(i, pool);
  compute_outputs();
}

// A graph holds pointers: into scratch memory, the inputs and the cache.
template <class T>
void CudaForward<T>::forget_graphs_of_other_memory(KvPool& pool) {
  cache_.clear();
  for (size_t i = 0; i < traits_.layers.size(); ++i) {
    const PagedKv kv = pool.layer(static_cast<int64_t>(i));
    cache_.push_back(kv.keys);
    cache_.push_back(kv.values);
  }
  const int64_t moves = moves_ + inputs_.moves();
  if (moves == recorded_moves_ && cache_ == recorded_cache_) return;
  if (graphs_.size() > 0) stream().wait();  // one of them may be running
  graphs_.clear();
  recorded_moves_ = moves;
  recorded_cache_ = cache_;
}

template <class T>
void CudaForward<T>::embed_tokens(T* x) {
  const int64_t hidden = traits_.hidden;
  x_ = x;
  gpu::embed<T>({.table = weights_.embedding,
                 .ids = inputs_.tokens(),
                 .fed = inputs_.fed(),
                 .fed_ids = sampled_ids_.as<int32_t>(),
                 .chosen = inputs_.tokens(),
                 .count = rows_,
                 .scale = traits_.embedding_scale,
                 .y = x_,
                 .y_stride = hidden},
                stream());
  if (traits_.learned_positions) {
    T* places = take(branch_, rows_ * hidden);
    gpu::embed<T>({.table = weights_.positions,
                   .ids = inputs_.positions(),
                   .count = rows_,
                   .y = places,
                   .y_stride = hidden},
                  stream());
    gpu::add_scaled(places, 1.f, x_, rows_ * hidden, stream());
  }
}

template <class T>
void CudaForward<T>::run_layer(size_t index, KvPool& pool) {
  const LayerWeights& w = weights_.layers[index];
  const int64_t hidden = traits_.hidden, width = w.attention.o.w.cols;
  const bool is_last = index + 1 == traits_.layers.size(), adds = adds_branches_directly();
  const auto layer = static_cast<int64_t>(index);
  const LayerCache cache{pool.layer(layer), inputs_.attention(pool.group_of(layer))};
  if (traits_.has_mla)
    attend_latent(in_, index, cache);
  else
    attend(in_, index, cache);
  // Past the last layer's attention only rows whose outputs are wanted matter.
  if (is_last && !inputs_.wants_all_rows()) pick_rows(width);
  if (rows_ == 0) return;
  T* into = adds ? x_ : take(branch_, rows_ * hidden);
  linear<T>(w.attention.o, attended_, width, {into, hidden}, {.adds = adds});
  join_branch(w.attention_out, traits_.pre_norm ? &w.mlp_in : nullptr);

  if (traits_.layers[index].moe)
    run_moe(index, in_, into, adds);
  else
    run_mlp(w.mlp, in_, into, adds);
  const Norm* next = is_last            ? &weights_.final_norm
                     : traits_.pre_norm ? &weights_.layers[index + 1].attention_in
                                        : nullptr;
  join_branch(w.mlp_out, next);
}

template <class T>
void CudaForward<T>::pick_rows(int64_t attended_width) {
  const int64_t count = inputs_.num_logits() + inputs_.num_hidden();
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

// x_ goes on, normalized where there is a norm.
template <class T>
void CudaForward<T>::enter(const Norm* norm) {
  in_ = norm ? normed(*norm, x_, take(normed_, rows_ * traits_.hidden)) : x_;
}

// x += scale * norm(branch), unless the branch is in x already; then on to the next part.
template <class T>
void CudaForward<T>::join_branch(const Norm& out_norm, const Norm* next) {
  if (adds_branches_directly()) return enter(next);
  const int64_t count = rows_ * traits_.hidden;
  T* y = next ? take(normed_, count) : nullptr;
  gpu::add_and_norm<T>({.branch = take(branch_, count),
                        .x = x_,
                        .y = y,
                        .rows = rows_,
                        .cols = traits_.hidden,
                        .centered = traits_.norm != NormKind::kRms,
                        .post_norm = traits_.post_norm,
                        .branch_weight = out_norm.weight,
                        .branch_bias = out_norm.bias,
                        .scale = traits_.residual_scale,
                        .weight = next ? next->weight : nullptr,
                        .bias = next ? next->bias : nullptr,
                        .eps = traits_.norm_eps,
                        .weight_offset = traits_.norm_weight_offset},
                       stream());
  in_ = next ? y : x_;
}

// in_ holds the wanted rows after the final norm.
template <class T>
void CudaForward<T>::compute_outputs() {
  if (rows_ == 0) return;
  const int64_t hidden = traits_.hidden, num_logits = inputs_.num_logits() * traits_.vocab;
  rows_ = inputs_.num_logits();
  if (inputs_.num_hidden() > 0)
    gpu::copy_rows<T, float>({.x = in_ + rows_ * hidden,
                              .x_stride = hidden,
                              .y = take<float>(hidden_, inputs_.num_hidden() * hidden),
                              .y_stride = hidden,
                              .rows = inputs_.num_hidden(),
                              .cols = hidden},
                             stream());
  if (num_logits == 0) return;
  float* computed = take<float>(logits_, num_logits);
  linear<float>(weights_.head, in_, hidden, {computed, traits_.vocab});
  if (traits_.logit_scale != 1.f || traits_.logit_soft_cap != 0.f)
    gpu::finish_logits(computed, num_logits, traits_.logit_scale, traits_.logit_soft_cap, stream());
}

template <class T>
void CudaForward<T>::fetch_outputs(const ForwardBatch& batch, std::span<float> logits) {
  const int64_t num_logits = std::ssize(batch.logit_rows) * traits_.vocab;
  const int64_t num_hidden = std::ssize(batch.hidden_rows) * traits_.hidden;
  CHEETAH_ASSERT(std::ssize(logits) >= num_logits, "room for the logits");
  CHEETAH_ASSERT(std::ssize(batch.hidden) >= num_hidden, "room for the hidden states");
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  if (host_logits_.size() < (num_logits + num_hidden) * kFloat)
    host_logits_ = gpu::PinnedBuffer((num_logits + num_hidden) * kFloat);
  auto* staged = host_logits_.as<float>();
  gpu::copy_to_host(staged, logits_.as<float>(), num_logits * kFloat, stream());
  gpu::copy_to_host(staged + num_logits, hidden_.as<float>(), num_hidden * kFloat, stream());
  stream().wait();
  std::copy_n(staged, num_logits, logits.data());
  std::copy_n(staged + num_logits, num_hidden, batch.hidden.data());
}

template <class T>
template <class Y>
void CudaForward<T>::linear(const Linear& layer, const T* x, int64_t x_stride, DeviceRows<Y> y,
                            Finish finish) {
  const int64_t widened = std::is_same_v<T, Bf16> ? widened_numbers(layer.w, finish.gated) : 0;
  const int64_t narrowed = std::is_same_v<T, Bf16> ? narrowed_bytes(layer.w.dtype, rows_, layer.w.cols) : 0;
  gpu::gemm<T, Y>({.x = x,
                   .x_stride = x_stride,
                   .m = rows_,
                   .w = layer.w,
                   .bias = layer.bias,
                   .gated = finish.gated,
                   .residual = finish.adds ? y.data : nullptr,
                   .residual_stride = y.stride,
                   .y = y.data,
                   .y_stride = y.stride,
                   .widened = take<Bf16>(widened_, widened),
                   .widened_numbers = widened,
                   .narrowed = take<std::byte>(narrowed_, narrowed),
                   .narrowed_bytes = narrowed},
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
template void CudaForward<float>::linear<float>(const Linear&, const float*, int64_t, DeviceRows<float>,
                                                Finish);
template void CudaForward<Bf16>::linear<float>(const Linear&, const Bf16*, int64_t, DeviceRows<float>,
                                               Finish);
template void CudaForward<Bf16>::linear<Bf16>(const Linear&, const Bf16*, int64_t, DeviceRows<Bf16>, Finish);

}  // namespace cheetah
