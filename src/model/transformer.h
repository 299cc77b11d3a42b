// SPDX-License-Identifier: MIT
#pragma once
// The one transformer: every family on every device is this code, steered by a model's traits. It says what is
// computed from what and in which order; Ops computes it, launch by launch: CpuOps (cpu_ops.h), CudaOps
// (cuda/cuda_ops.h).
//
// What Ops has:
//   Number, Scratch       the type of the activations, and memory that only ever grows, which take() hands out
//   Step                  what a step is given: num_rows(), wants_all_rows(), num_wanted(), num_logits()
//   Routes                the experts a step's rows go to: `count` rows, in the experts' order
//   kAddsInProducts       whether a product can add to what is there,
//   kGatesInProducts      … can gate its outputs by SiLU,
//   kAddsAndNorms         and whether a branch's sum and the norms around it are one launch
//   tables(layer)         matrices of one shape by role: k_up, v_up; gate_up or gate and up; down
//   the operations that are called here and in the two parts, with the kernels' own arguments
#include "base/error.h"
#include "model/transformer_attention.h"
#include "model/transformer_mlp.h"

namespace cheetah {

template <class Ops>
class Transformer {
 public:
  using T = typename Ops::Number;
  using Step = typename Ops::Step;
  using State = LayerState<T>;

  Transformer(const ModelTraits& traits, const ModelWeights& weights, Ops& ops);

  // From a step's tokens to its outputs.
  void run(const Step& step);

  // Both ends of run(), for a path that computes the layers in another way: the tokens' embeddings in x [rows, hidden],
  // and the outputs of what the last layer left there.
  State embed(const Step& step, T* x);
  void finish(const Step& step, const State& s);
  void finish_logits(float* logits, int64_t count);

 private:
  State run_layer(size_t index, const Step& step, State s);
  State enter(State s, const Norm* norm);
  Branch<T> branch_of(const State& s);
  State join(State s, const Branch<T>& branch, const Norm& out_norm, const Norm* next);
  State pick_rows(const Step& step, State s, Rows<T>& attended);
  void write_outputs(const Step& step, const State& s);
  void normalize(const Norm& norm, const T* x, T* y, int64_t rows);

  const ModelTraits& traits_;
  const ModelWeights& weights_;
  Ops& ops_;
  LayerAttention<Ops> attention_;
  LayerMlp<Ops> mlp_;
  typename Ops::Scratch x_, picked_x_, picked_attended_, normed_, branch_;
};

template <class Ops>
Transformer<Ops>::Transformer(const ModelTraits& traits, const ModelWeights& weights, Ops& ops)
    : traits_(traits),
      weights_(weights),
      ops_(ops),
      attention_(traits, weights, ops),
      mlp_(traits, weights, ops) {
  CHEETAH_ASSERT(traits_.pre_norm || !traits_.parallel_blocks, "parallel blocks have norms before them");
}

template <class Ops>
void Transformer<Ops>::run(const Step& step) {
  State s = embed(step, ops_.take(x_, step.num_rows() * traits_.hidden));
  s = enter(s, traits_.pre_norm ? &weights_.layers.front().attention_in : nullptr);
  for (size_t i = 0; i < traits_.layers.size(); ++i) s = run_layer(i, step, s);
  write_outputs(step, s);
}

template <class Ops>
auto Transformer<Ops>::embed(const Step& step, T* x) -> State {
  const int64_t rows = step.num_rows(), count = rows * traits_.hidden;
  ops_.embed_tokens(step, weights_.embedding, traits_.embedding_scale, x);
  if (traits_.learned_positions) {
    T* places = ops_.take(branch_, count);
    ops_.embed_positions(step, weights_.positions, places);
    ops_.add_scaled(places, 1.f, x, count);
  }
  return {.rows = rows, .x = x, .in = {x, traits_.hidden}};
}

template <class Ops>
auto Transformer<Ops>::run_layer(size_t index, const Step& step, State s) -> State {
  const LayerWeights& w = weights_.layers[index];
  Rows<T> attended = attention_.run(index, step, s);
  // Past the last layer's attention only rows whose outputs are wanted matter.
  const bool is_last = index + 1 == traits_.layers.size(), picks = is_last && !step.wants_all_rows();
  if (picks) s = pick_rows(step, s, attended);
  if (s.rows == 0) return s;
  // Parallel blocks: the MLP's input is the layer's, normalized anew for a norm of its own or rows picked since.
  if (traits_.parallel_blocks && (!traits_.shared_norm || picks))
    s = enter(s, traits_.shared_norm ? &w.attention_in : &w.mlp_in);
  const Rows<const T> parallel_in = s.in;
  Branch<T> branch = branch_of(s);
  linear(ops_, w.attention.o, s.rows, attended, branch.y, {.adds = branch.adds});
  s = join(s, branch, w.attention_out, traits_.pre_norm && !traits_.parallel_blocks ? &w.mlp_in : nullptr);
  if (traits_.parallel_blocks) s.in = parallel_in;

  branch = branch_of(s);
  mlp_.run(index, s, branch);
  const Norm* next = is_last            ? &weights_.final_norm
                     : traits_.pre_norm ? &weights_.layers[index + 1].attention_in
                                        : nullptr;
  return join(s, branch, w.mlp_out, next);
}

// x goes on, normalized where there is a norm.
template <class Ops>
auto Transformer<Ops>::enter(State s, const Norm* norm) -> State {
  s.in = {s.x, traits_.hidden};
  if (!norm) return s;
  T* y = ops_.take(normed_, s.rows * traits_.hidden);
  normalize(*norm, s.x, y, s.rows);
  s.in.data = y;
  return s;
}

// Straight into the residual stream where nothing stands between.
template <class Ops>
auto Transformer<Ops>::branch_of(const State& s) -> Branch<T> {
  const bool adds = Ops::kAddsInProducts && !traits_.post_norm && traits_.residual_scale == 1.f;
  return {.y = {adds ? s.x : ops_.take(branch_, s.rows * traits_.hidden), traits_.hidden}, .adds = adds};
}

// x += scale * norm(branch), unless the branch is in x already; then on to the next part. Attention and MLP both end
// here: were a layer's weights cut over several devices, this and branch_of() are where their sums would meet.
template <class Ops>
auto Transformer<Ops>::join(State s, const Branch<T>& branch, const Norm& out_norm, const Norm* next)
    -> State {
  if (branch.adds) return enter(s, next);
  const int64_t count = s.rows * traits_.hidden;
  if constexpr (Ops::kAddsAndNorms) {
    T* y = next ? ops_.take(normed_, count) : nullptr;
    ops_.add_and_norm({.branch = branch.y.data,
        .x = s.x,
        .y = y,
        .rows = s.rows,
        .cols = traits_.hidden,
        .centered = traits_.norm != NormKind::kRms,
        .post_norm = traits_.post_norm,
        .branch_weight = out_norm.weight,
        .branch_bias = out_norm.bias,
        .scale = traits_.residual_scale,
        .weight = next ? next->weight : nullptr,
        .bias = next ? next->bias : nullptr,
        .eps = traits_.norm_eps,
        .weight_offset = traits_.norm_weight_offset});
    s.in = {next ? y : s.x, traits_.hidden};
    return s;
  } else {
    if (traits_.post_norm) normalize(out_norm, branch.y.data, branch.y.data, s.rows);
    ops_.add_scaled(branch.y.data, traits_.residual_scale, s.x, count);
    return enter(s, next);
  }
}

// Those with logits first, then those with hidden states: a row that wants both comes twice.
template <class Ops>
auto Transformer<Ops>::pick_rows(const Step& step, State s, Rows<T>& attended) -> State {
  const auto pick = [&](const T* from, typename Ops::Scratch& into, int64_t width) {
    T* picked = ops_.take(into, step.num_wanted() * width);
    ops_.copy_wanted(step, from, picked, width);
    return picked;
  };
  s.rows = step.num_wanted();
  s.x = pick(s.x, picked_x_, traits_.hidden);
  attended.data = pick(attended.data, picked_attended_, attended.stride);
  return s;
}

template <class Ops>
void Transformer<Ops>::finish(const Step& step, const State& s) {
  write_outputs(step, enter(s, &weights_.final_norm));
}

// s.in holds the wanted rows after the final norm.
template <class Ops>
void Transformer<Ops>::write_outputs(const Step& step, const State& s) {
  if (s.rows == 0) return;
  const int64_t rows = step.num_logits();
  ops_.keep_hidden(step, s.in.data + rows * traits_.hidden);
  if (rows == 0) return;
  const Rows<float> logits{ops_.logits(step), traits_.vocab};
  linear(ops_, weights_.head, rows, s.in, logits);
  finish_logits(logits.data, rows * traits_.vocab);
}

template <class Ops>
void Transformer<Ops>::finish_logits(float* logits, int64_t count) {
  if (traits_.logit_scale != 1.f || traits_.logit_soft_cap != 0.f)
    ops_.finish_logits(logits, count, traits_.logit_scale, traits_.logit_soft_cap);
}

template <class Ops>
void Transformer<Ops>::normalize(const Norm& norm, const T* x, T* y, int64_t rows) {
  const typename Ops::NormArgs args{.x = x,
      .x_stride = traits_.hidden,
      .y = y,
      .y_stride = traits_.hidden,
      .rows = rows,
      .cols = traits_.hidden,
      .weight = norm.weight,
      .bias = norm.bias,
      .eps = traits_.norm_eps,
      .weight_offset = traits_.norm_weight_offset};
  traits_.norm == NormKind::kRms ? ops_.rms_norm(args) : ops_.layer_norm(args);
}

}  // namespace cheetah
