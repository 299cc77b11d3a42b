// From normed rows to the heads' outputs, over keys and values or, with latent attention (MLA), in its
// absorbed form over the latent rows themselves.
#include "base/error.h"
#include "kernels/activation/activation_cuda.h"
#include "kernels/norm/norm_cuda.h"
#include "kernels/rope/finish_qkv_cuda.h"
#include "model/cuda/cuda_forward.h"

namespace cheetah {

template <class T>
void CudaForward<T>::attend(const T* x, size_t index, const LayerCache& cache) {
  const AttentionWeights& w = weights_.layers[index].attention;
  const LayerTraits& layer = traits_.layers[index];
  const int64_t dim = traits_.head_dim, width = traits_.heads * dim;
  project_qkv(x, w);
  finish_qkv(index, cache);
  attended_ = take(attended_buffer_, rows_ * width);
  gpu::attention<T>({.q = q_.data,
                     .q_stride = q_.stride,
                     .out = attended_,
                     .out_stride = width,
                     .heads = traits_.heads,
                     .kv = cache.kv,
                     .batch = cache.batch,
                     .scale = attention_scale(index),
                     .soft_cap = traits_.attention_soft_cap,
                     .window = layer.window,
                     .sinks = w.sinks,
                     .scratch = attention_scratch(dim)},
                    stream());
}

template <class T>
gpu::AttentionScratch CudaForward<T>::attention_scratch(int64_t value_dim) {
  const int64_t sequences = inputs_.attention(0).num_sequences;
  return {.counters = take<uint32_t>(attention_counters_, sequences * traits_.heads),
          .parts = take<float>(attention_parts_,
                               gpu::AttentionScratch::num_parts(sequences, traits_.heads, value_dim))};
}

template <class T>
void CudaForward<T>::project_qkv(const T* x, const AttentionWeights& w) {
  const int64_t hidden = traits_.hidden;
  const int64_t q_width = traits_.heads * traits_.head_dim, kv_width = traits_.kv_heads * traits_.head_dim;
  const int64_t total = q_width + 2 * kv_width;
  T* buffer = take(qkv_, rows_ * total);
  q_ = {buffer, total};
  k_ = {buffer + q_width, total};
  v_ = {buffer + q_width + kv_width, total};
  if (w.qkv.present()) {
    linear<T>(w.qkv, x, hidden, q_);
    return;
  }
  linear<T>(w.q, x, hidden, q_);
  linear<T>(w.k, x, hidden, k_);
  linear<T>(w.v, x, hidden, v_);
}

// Norms, rotation and cache: in one kernel where a head fits it.
template <class T>
void CudaForward<T>::finish_qkv(size_t index, const LayerCache& cache) {
  const AttentionWeights& w = weights_.layers[index].attention;
  const LayerTraits& layer = traits_.layers[index];
  const gpu::KvWriteArgs<T> write{.keys = k_.data,
                                  .key_stride = k_.stride,
                                  .values = v_.data,
                                  .value_stride = v_.stride,
                                  .kv = cache.kv,
                                  .batch = cache.batch};
  const bool by_head = traits_.qk_norm && !traits_.qk_norm_whole;
  const gpu::FinishQkvArgs<T> args{.q = q_.data,
                                   .q_stride = q_.stride,
                                   .heads = traits_.heads,
                                   .write = write,
                                   .q_norm = by_head ? w.q_norm.weight : nullptr,
                                   .k_norm = by_head ? w.k_norm.weight : nullptr,
                                   .eps = traits_.norm_eps,
                                   .weight_offset = traits_.norm_weight_offset,
                                   .turns = layer.rotate ? turns(layer.local_rope) : gpu::RopeTurns{}};
  const bool fits = gpu::finish_qkv_fits(args);
  if (traits_.qk_norm_whole || (traits_.qk_norm && !fits)) normalize_qk(w);
  if (fits) return gpu::finish_qkv(args, stream());
  if (layer.rotate) {
    rotate(q_, traits_.heads, traits_.head_dim, layer.local_rope);
    rotate(k_, traits_.kv_heads, traits_.head_dim, layer.local_rope);
  }
  gpu::write_kv<T>(write, stream());
}

template <class T>
void CudaForward<T>::normalize_qk(const AttentionWeights& w) {
  const auto normalize = [&](const Rows& rows, int64_t heads, const Norm& norm) {
    const bool whole = traits_.qk_norm_whole;
    const int64_t dim = traits_.head_dim;
    gpu::rms_norm<T>({.x = rows.data,
                      .x_stride = rows.stride,
                      .y = rows.data,
                      .y_stride = rows.stride,
                      .rows = rows_,
                      .cols = whole ? heads * dim : dim,
                      .parts = whole ? 1 : heads,
                      .part_stride = dim,
                      .weight = norm.weight,
                      .eps = traits_.norm_eps,
                      .weight_offset = traits_.norm_weight_offset},
                     stream());
  };
  normalize(q_, traits_.heads, w.q_norm);
  normalize(k_, traits_.kv_heads, w.k_norm);
}

template <class T>
gpu::RopeTurns CudaForward<T>::turns(bool local) const {
  const RopeTraits& rope = local ? traits_.local_rope : traits_.rope;
  const DeviceRope& tables = local ? device_.local_rope() : device_.rope();
  CHEETAH_ASSERT(rope.long_inv_freq.empty() || rope.long_inv_freq.size() == rope.inv_freq.size(),
                 "both frequencies turn the same pairs");
  return {.inv_freq = tables.inv_freq,
          .long_inv_freq = rope.long_inv_freq.empty() ? nullptr : tables.long_inv_freq,
          .uses_long = inputs_.uses_long_rope(),
          .half = std::ssize(rope.inv_freq),
          .magnitude = rope.magnitude,
          .long_magnitude = rope.long_magnitude,
          .layout = rope.layout};
}

template <class T>
void CudaForward<T>::rotate(const Rows& rows, int64_t heads, int64_t head_stride, bool local) {
  gpu::rope<T>({.x = rows.data,
                .token_stride = rows.stride,
                .head_stride = head_stride,
                .tokens = rows_,
                .heads = heads,
                .positions = inputs_.positions(),
                .turns = turns(local)},
               stream());
}

template <class T>
void CudaForward<T>::attend_latent(const T* x, size_t index, const LayerCache& cache) {
  const AttentionWeights& w = weights_.layers[index].attention;
  const MlaTraits& mla = traits_.mla;
  const int64_t heads = traits_.heads, latent = mla.kv_rank + mla.rope_dim;
  const Rows q = project_latent_queries(x, index);

  const Rows row{take(latent_kv_, rows_ * latent), latent};  // [tokens, kv_rank + rope_dim]
  linear<T>(w.kv_a, x, traits_.hidden, row);
  normalize_part(row.data, latent, mla.kv_rank, w.kv_a_norm);
  rotate({row.data + mla.kv_rank, latent}, 1, mla.rope_dim, false);
  gpu::write_kv<T>({.keys = row.data, .key_stride = latent, .kv = cache.kv, .batch = cache.batch}, stream());

  T* out = take(latent_out_, rows_ * heads * mla.kv_rank);
  gpu::attention<T>({.q = q.data,
                     .q_stride = q.stride,
                     .out = out,
                     .out_stride = heads * mla.kv_rank,
                     .heads = heads,
                     .kv = cache.kv,
                     .batch = cache.batch,
                     .scale = attention_scale(index),
                     .soft_cap = traits_.attention_soft_cap,
                     .window = traits_.layers[index].window,
                     .scratch = attention_scratch(mla.kv_rank)},
                    stream());
  attended_ = take(attended_buffer_, rows_ * heads * mla.value_dim);
  per_head(device_.tables(index).v_up, {out, heads * mla.kv_rank}, mla.kv_rank,
           {attended_, heads * mla.value_dim}, mla.value_dim);
}

// [tokens, heads, kv_rank + rope_dim]
template <class T>
DeviceRows<T> CudaForward<T>::project_latent_queries(const T* x, size_t index) {
  const AttentionWeights& w = weights_.layers[index].attention;
  const MlaTraits& mla = traits_.mla;
  const int64_t heads = traits_.heads, dim = mla.nope_dim + mla.rope_dim, latent = mla.kv_rank + mla.rope_dim;
  const Rows q{take(qkv_, rows_ * heads * dim), heads * dim};
  if (w.q_a.present()) {
    T* low = take(low_rank_, rows_ * mla.q_rank);
    linear<T>(w.q_a, x, traits_.hidden, {low, mla.q_rank});
    normalize_part(low, mla.q_rank, mla.q_rank, w.q_a_norm);
    linear<T>(w.q, low, mla.q_rank, q);
  } else {
    linear<T>(w.q, x, traits_.hidden, q);
  }
  rotate({q.data + mla.nope_dim, q.stride}, heads, dim, false);
  const Rows result{take(latent_q_, rows_ * heads * latent), heads * latent};
  per_head(device_.tables(index).k_up, q, dim, result, latent);
  gpu::copy_rows<T, T>({.x = q.data + mla.nope_dim,
                        .x_stride = dim,
                        .y = result.data + mla.kv_rank,
                        .y_stride = latent,
                        .rows = rows_ * heads,
                        .cols = mla.rope_dim},
                       stream());
  return result;
}

// y's part h = heads[h] times x's part h, parts being x_step and y_step numbers apart in a row.
template <class T>
void CudaForward<T>::per_head(const gpu::WeightMatrices& heads, const Rows& x, int64_t x_step, const Rows& y,
                              int64_t y_step) {
  gpu::grouped_gemm<T, T>({.x = x.data,
                           .x_stride = x.stride,
                           .x_step = x_step,
                           .rows = rows_,
                           .w = heads,
                           .y = y.data,
                           .y_stride = y.stride,
                           .y_step = y_step},
                          stream());
}

template <class T>
void CudaForward<T>::normalize_part(T* x, int64_t stride, int64_t cols, const Norm& norm) {
  gpu::rms_norm<T>({.x = x,
                    .x_stride = stride,
                    .y = x,
                    .y_stride = stride,
                    .rows = rows_,
                    .cols = cols,
                    .weight = norm.weight,
                    .eps = traits_.mla.norm_eps},
                   stream());
}

template class CudaForward<float>;
template class CudaForward<Bf16>;

}  // namespace cheetah
