// SPDX-License-Identifier: MIT
#pragma once
#include "model/layer_state.h"

namespace cheetah {

// From a layer's input to the heads' outputs, over keys and values or, with latent attention (MLA), in its absorbed
// form: queries go into the latent space, attention runs over the latent rows themselves (one head of keys for all),
// and its output comes back through each head's values. Owns the memory between its steps.
template <class Ops>
class LayerAttention {
 public:
  using T = typename Ops::Number;
  using Step = typename Ops::Step;
  using State = LayerState<T>;

  LayerAttention(const ModelTraits& traits, const ModelWeights& weights, Ops& ops)
      : traits_(traits), weights_(weights), ops_(ops) {}

  // The heads' outputs side by side in each row; this step's keys and values are in the cache then.
  Rows<T> run(size_t index, const Step& step, const State& s) {
    return traits_.has_mla ? attend_latent(index, step, s) : attend(index, step, s);
  }

 private:
  Rows<T> attend(size_t index, const Step& step, const State& s);
  Qkv<T> project_qkv(const AttentionWeights& w, const State& s);
  void finish_qkv(size_t index, const Step& step, const State& s, const Qkv<T>& qkv);
  void normalize_qk(const AttentionWeights& w, const State& s, const Qkv<T>& qkv);
  Rows<T> attend_latent(size_t index, const Step& step, const State& s);
  HeadRows<T> project_latent_queries(size_t index, const Step& step, const State& s);
  void normalize_parts(const HeadRows<T>& x, int64_t rows, int64_t parts, typename Ops::NormArgs args);
  void attend_cache(size_t index, const Step& step, Rows<const T> q, Rows<T> out);

  const ModelTraits& traits_;
  const ModelWeights& weights_;
  Ops& ops_;
  typename Ops::Scratch qkv_, attended_, latent_q_, latent_kv_, latent_out_, low_rank_;
};

template <class Ops>
auto LayerAttention<Ops>::attend(size_t index, const Step& step, const State& s) -> Rows<T> {
  const int64_t width = traits_.heads * traits_.head_dim;
  const Qkv<T> qkv = project_qkv(weights_.layers[index].attention, s);
  finish_qkv(index, step, s, qkv);
  const Rows<T> out{ops_.take(attended_, s.rows * width), width};
  attend_cache(index, step, qkv.q, out);
  return out;
}

template <class Ops>
void LayerAttention<Ops>::attend_cache(size_t index, const Step& step, Rows<const T> q, Rows<T> out) {
  const LayerTraits& layer = traits_.layers[index];
  typename Ops::AttentionArgs args = ops_.attention_args(step, index);
  args.q = q.data;
  args.q_stride = q.stride;
  args.out = out.data;
  args.out_stride = out.stride;
  args.heads = traits_.heads;
  args.scale = traits_.attention_scale * layer.attention_factor;
  args.soft_cap = traits_.attention_soft_cap;
  args.window = layer.window;
  args.sinks = weights_.layers[index].attention.sinks;
  ops_.attention(args);
}

// One product where the three weights lie side by side.
template <class Ops>
auto LayerAttention<Ops>::project_qkv(const AttentionWeights& w, const State& s) -> Qkv<T> {
  const int64_t q_width = traits_.heads * traits_.head_dim, kv_width = traits_.kv_heads * traits_.head_dim;
  const int64_t total = q_width + 2 * kv_width;
  T* buffer = ops_.take(qkv_, s.rows * total);
  const Qkv<T> qkv{{buffer, total}, {buffer + q_width, total}, {buffer + q_width + kv_width, total}};
  if (w.qkv.present()) {
    linear(ops_, w.qkv, s.rows, s.in, qkv.q);
    return qkv;
  }
  linear(ops_, w.q, s.rows, s.in, qkv.q);
  linear(ops_, w.k, s.rows, s.in, qkv.k);
  linear(ops_, w.v, s.rows, s.in, qkv.v);
  return qkv;
}

// Norms, rotation and cache: at once where Ops can.
template <class Ops>
void LayerAttention<Ops>::finish_qkv(size_t index, const Step& step, const State& s, const Qkv<T>& qkv) {
  const AttentionWeights& w = weights_.layers[index].attention;
  const LayerTraits& layer = traits_.layers[index];
  const bool by_head = traits_.qk_norm && !traits_.qk_norm_whole;
  if (traits_.qk_norm_whole) normalize_qk(w, s, qkv);
  if (traits_.qkv_clip > 0.f)
    ops_.clip(qkv.q.data, traits_.qkv_clip, s.rows * qkv.q.stride);  // k and v lie beside q
  const QkvFinish finish{.q_norm = by_head ? w.q_norm.weight : nullptr,
      .k_norm = by_head ? w.k_norm.weight : nullptr,
      .rotates = layer.rotate,
      .local_rope = layer.local_rope};
  if (ops_.finish_qkv(step, index, qkv, finish)) return;
  if (by_head) normalize_qk(w, s, qkv);
  const int64_t dim = traits_.head_dim;
  if (layer.rotate) {
    ops_.rotate(step, {qkv.q.data, qkv.q.stride, dim}, traits_.heads, layer.local_rope);
    ops_.rotate(step, {qkv.k.data, qkv.k.stride, dim}, traits_.kv_heads, layer.local_rope);
  }
  ops_.write_kv(step, index, qkv.k, qkv.v);
}

// Each head by itself, or all at once.
template <class Ops>
void LayerAttention<Ops>::normalize_qk(const AttentionWeights& w, const State& s, const Qkv<T>& qkv) {
  const auto normalize_heads = [&](const Rows<T>& x, int64_t heads, const Norm& norm) {
    const int64_t parts = traits_.qk_norm_whole ? 1 : heads, dim = traits_.head_dim;
    normalize_parts({x.data, x.stride, dim}, s.rows, parts,
        {.cols = heads * dim / parts,
            .weight = norm.weight,
            .eps = traits_.norm_eps,
            .weight_offset = traits_.norm_weight_offset});
  };
  normalize_heads(qkv.q, traits_.heads, w.q_norm);
  normalize_heads(qkv.k, traits_.kv_heads, w.k_norm);
}

template <class Ops>
auto LayerAttention<Ops>::attend_latent(size_t index, const Step& step, const State& s) -> Rows<T> {
  const AttentionWeights& w = weights_.layers[index].attention;
  const MlaTraits& mla = traits_.mla;
  const int64_t heads = traits_.heads, latent = mla.kv_rank + mla.rope_dim;
  const HeadRows<T> q = project_latent_queries(index, step, s);

  const Rows<T> row{ops_.take(latent_kv_, s.rows * latent), latent};  // [tokens, kv_rank + rope_dim]
  linear(ops_, w.kv_a, s.rows, s.in, row);
  normalize_parts({row.data, latent}, s.rows, 1,
      {.cols = mla.kv_rank, .weight = w.kv_a_norm.weight, .eps = mla.norm_eps});
  ops_.rotate(step, {row.data + mla.kv_rank, latent, mla.rope_dim}, 1, false);
  ops_.write_kv(step, index, row, {});

  const int64_t latent_width = heads * mla.kv_rank, width = heads * mla.value_dim;
  const Rows<T> found{ops_.take(latent_out_, s.rows * latent_width), latent_width};
  attend_cache(index, step, {q.data, q.stride}, found);
  const Rows<T> out{ops_.take(attended_, s.rows * width), width};
  ops_.multiply_heads(ops_.tables(index).v_up, s.rows, {found.data, latent_width, mla.kv_rank},
      {out.data, width, mla.value_dim});
  return out;
}

// [tokens, heads, kv_rank + rope_dim]
template <class Ops>
auto LayerAttention<Ops>::project_latent_queries(size_t index, const Step& step, const State& s)
    -> HeadRows<T> {
  const AttentionWeights& w = weights_.layers[index].attention;
  const MlaTraits& mla = traits_.mla;
  const int64_t heads = traits_.heads, dim = mla.nope_dim + mla.rope_dim, latent = mla.kv_rank + mla.rope_dim;
  const Rows<T> q{ops_.take(qkv_, s.rows * heads * dim), heads * dim};
  if (w.q_a.present()) {
    const Rows<T> low{ops_.take(low_rank_, s.rows * mla.q_rank), mla.q_rank};
    linear(ops_, w.q_a, s.rows, s.in, low);
    normalize_parts({low.data, low.stride}, s.rows, 1,
        {.cols = mla.q_rank, .weight = w.q_a_norm.weight, .eps = mla.norm_eps});
    linear(ops_, w.q, s.rows, low, q);
  } else {
    linear(ops_, w.q, s.rows, s.in, q);
  }
  ops_.rotate(step, {q.data + mla.nope_dim, q.stride, dim}, heads, false);
  const HeadRows<T> result{ops_.take(latent_q_, s.rows * heads * latent), heads * latent, latent};
  ops_.multiply_heads(ops_.tables(index).k_up, s.rows, {q.data, q.stride, dim}, result);
  ops_.copy_rows(
      s.rows * heads, mla.rope_dim, {q.data + mla.nope_dim, dim}, {result.data + mla.kv_rank, latent});
  return result;
}

// RMSNorm in place, of each part of each row by itself.
template <class Ops>
void LayerAttention<Ops>::normalize_parts(
    const HeadRows<T>& x, int64_t rows, int64_t parts, typename Ops::NormArgs args) {
  args.x = args.y = x.data;
  args.x_stride = args.y_stride = x.stride;
  args.rows = rows;
  args.parts = parts;
  args.part_stride = x.step;
  ops_.rms_norm(args);
}

}  // namespace cheetah
