#include "kernels/attention/attention.h"
#include "kernels/norm/norm.h"
#include "kernels/rope/rope.h"
#include "model/forward.h"

namespace cheetah {

void Forward::attend(const float* x, size_t index, const LayerCache& cache) {
  const AttentionWeights& w = weights_.layers[index].attention;
  const LayerTraits& layer = traits_.layers[index];
  const int64_t dim = traits_.head_dim, width = traits_.heads * dim;
  project_qkv(x, w);
  normalize_qk(w);
  if (layer.rotate) {
    const RopeTraits& rope = layer.local_rope ? traits_.local_rope : traits_.rope;
    rotate(q_, traits_.heads, dim, rope);
    rotate(k_, traits_.kv_heads, dim, rope);
  }
  write_kv({.keys = k_.data,
            .key_stride = k_.stride,
            .values = v_.data,
            .value_stride = v_.stride,
            .kv = cache.kv,
            .sequences = cache.sequences},
           context_);
  attended_ = attended_buffer_.take(rows_ * width);
  attention({.q = q_.data,
             .q_stride = q_.stride,
             .out = attended_,
             .out_stride = width,
             .heads = traits_.heads,
             .kv = cache.kv,
             .sequences = cache.sequences,
             .scale = attention_scale(index),
             .soft_cap = traits_.attention_soft_cap,
             .window = layer.window,
             .sinks = w.sinks},
            context_);
}

// One product where the three lie side by side; heads that are normalized each must be one dense matrix.
void Forward::project_qkv(const float* x, const AttentionWeights& w) {
  const int64_t hidden = traits_.hidden;
  const int64_t q_width = traits_.heads * traits_.head_dim, kv_width = traits_.kv_heads * traits_.head_dim;
  const int64_t total = q_width + 2 * kv_width;
  float* buffer = qkv_.take(rows_ * total);
  if (w.qkv.present() && (!traits_.qk_norm || rows_ == 1)) {
    q_ = {buffer, total};
    k_ = {buffer + q_width, total};
    v_ = {buffer + q_width + kv_width, total};
    linear(w.qkv, x, hidden, {buffer, total});
    return;
  }
  q_ = {buffer, q_width};
  k_ = {buffer + rows_ * q_width, kv_width};
  v_ = {k_.data + rows_ * kv_width, kv_width};
  linear(w.q, x, hidden, q_);
  linear(w.k, x, hidden, k_);
  linear(w.v, x, hidden, v_);
}

void Forward::normalize_qk(const AttentionWeights& w) {
  if (!traits_.qk_norm && !traits_.qk_norm_whole) return;
  const auto normalize = [&](const Rows& rows, int64_t heads, const Norm& norm) {
    const bool whole = traits_.qk_norm_whole;
    const int64_t dim = traits_.head_dim, stride = whole ? rows.stride : dim;
    rms_norm({.x = rows.data,
              .x_stride = stride,
              .y = rows.data,
              .y_stride = stride,
              .rows = whole ? rows_ : rows_ * heads,
              .cols = whole ? heads * dim : dim,
              .weight = norm.weight,
              .eps = traits_.norm_eps,
              .weight_offset = traits_.norm_weight_offset},
             context_);
  };
  normalize(q_, traits_.heads, w.q_norm);
  normalize(k_, traits_.kv_heads, w.k_norm);
}

void Forward::rotate(const Rows& rows, int64_t heads, int64_t head_stride, const RopeTraits& rope_traits) {
  for (const RopeGroup& group : groups_) {
    const bool is_long = group.is_long && !rope_traits.long_inv_freq.empty();
    rope({.x = rows.data + group.begin * rows.stride,
          .token_stride = rows.stride,
          .head_stride = head_stride,
          .heads = heads,
          .positions = std::span(positions_)
                           .subspan(static_cast<size_t>(group.begin), static_cast<size_t>(group.count)),
          .inv_freq = is_long ? rope_traits.long_inv_freq : rope_traits.inv_freq,
          .magnitude = is_long ? rope_traits.long_magnitude : rope_traits.magnitude,
          .layout = rope_traits.layout},
         context_);
  }
}

}  // namespace cheetah
