// Multi-head latent attention in its absorbed form: queries go into the latent space, attention runs over the
// latent rows themselves (one head of keys for all), and its output comes back through each head's values.
#include <cstring>
#include <numeric>

#include "kernels/attention/attention.h"
#include "kernels/norm/norm.h"
#include "model/forward.h"

namespace cheetah {

void Forward::attend_latent(const float* x, size_t index, const LayerCache& cache) {
  const AttentionWeights& w = weights_.layers[index].attention;
  const MlaTraits& mla = traits_.mla;
  const int64_t heads = traits_.heads, latent = mla.kv_rank + mla.rope_dim;
  const Rows q = project_latent_queries(x, w);

  const Rows row{latent_kv_.take(rows_ * latent), latent};  // [tokens, kv_rank + rope_dim]
  linear(w.kv_a, x, traits_.hidden, row);
  rms_norm({.x = row.data,
            .x_stride = latent,
            .y = row.data,
            .y_stride = latent,
            .rows = rows_,
            .cols = mla.kv_rank,
            .weight = w.kv_a_norm.weight,
            .eps = mla.norm_eps},
           context_);
  rotate({row.data + mla.kv_rank, latent}, 1, mla.rope_dim, traits_.rope);
  write_kv({.keys = row.data, .key_stride = latent, .kv = cache.kv, .sequences = cache.sequences}, context_);

  float* out = latent_out_.take(rows_ * heads * mla.kv_rank);
  attention({.q = q.data,
             .q_stride = q.stride,
             .out = out,
             .out_stride = heads * mla.kv_rank,
             .heads = heads,
             .kv = cache.kv,
             .sequences = cache.sequences,
             .scale = attention_scale(index),
             .soft_cap = traits_.attention_soft_cap,
             .window = traits_.layers[index].window},
            context_);
  attended_ = attended_buffer_.take(rows_ * heads * mla.value_dim);
  per_head(w.v_up, {out, heads * mla.kv_rank}, mla.kv_rank, {attended_, heads * mla.value_dim},
           mla.value_dim);
}

// [tokens, heads, kv_rank + rope_dim]
Rows Forward::project_latent_queries(const float* x, const AttentionWeights& w) {
  const MlaTraits& mla = traits_.mla;
  const int64_t heads = traits_.heads, dim = mla.nope_dim + mla.rope_dim, latent = mla.kv_rank + mla.rope_dim;
  const Rows q{qkv_.take(rows_ * heads * dim), heads * dim};
  if (w.q_a.present()) {
    float* low = low_rank_.take(rows_ * mla.q_rank);
    linear(w.q_a, x, traits_.hidden, {low, mla.q_rank});
    rms_norm({.x = low,
              .x_stride = mla.q_rank,
              .y = low,
              .y_stride = mla.q_rank,
              .rows = rows_,
              .cols = mla.q_rank,
              .weight = w.q_a_norm.weight,
              .eps = mla.norm_eps},
             context_);
    linear(w.q, low, mla.q_rank, q);
  } else {
    linear(w.q, x, traits_.hidden, q);
  }
  rotate({q.data + mla.nope_dim, q.stride}, heads, dim, traits_.rope);
  const Rows result{latent_q_.take(rows_ * heads * latent), heads * latent};
  per_head(w.k_up, q, dim, result, latent);
  context_.pool.parallel_for(rows_ * heads, 256, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(result.data + i * latent + mla.kv_rank, q.data + i * dim + mla.nope_dim,
                  static_cast<size_t>(mla.rope_dim) * sizeof(float));
  });
  return result;
}

// y's part h = heads[h] times x's part h, parts being x_step and y_step numbers apart in a row.
void Forward::per_head(std::span<const WeightMatrix> heads, const Rows& x, int64_t x_step, const Rows& y,
                       int64_t y_step) {
  if (rows_ == 1) {  // each head's part is one row of a grouped product: one job instead of one per head
    head_offsets_.resize(heads.size() + 1);
    std::iota(head_offsets_.begin(), head_offsets_.end(), int64_t{0});
    grouped_gemm({.x = x.data,
                  .x_stride = x_step,
                  .experts = heads,
                  .offsets = head_offsets_,
                  .biases = {},
                  .y = y.data,
                  .y_stride = y_step},
                 context_);
    return;
  }
  for (size_t h = 0; h < heads.size(); ++h) {
    const auto part = static_cast<int64_t>(h);
    gemm({.x = x.data + part * x_step,
          .x_stride = x.stride,
          .m = rows_,
          .w = heads[h],
          .y = y.data + part * y_step,
          .y_stride = y.stride},
         context_);
  }
}

}  // namespace cheetah
