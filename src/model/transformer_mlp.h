// SPDX-License-Identifier: MIT
#pragma once
#include "model/layer_state.h"

namespace cheetah {

// From a part's input to its branch: a dense MLP, or experts and what all rows share. Owns the memory between its
// steps.
template <class Ops>
class LayerMlp {
 public:
  using T = typename Ops::Number;
  using State = LayerState<T>;

  LayerMlp(const ModelTraits& traits, const ModelWeights& weights, Ops& ops)
      : traits_(traits), weights_(weights), ops_(ops) {}

  void run(size_t index, const State& s, const Branch<T>& branch) {
    if (traits_.layers[index].moe)
      run_moe(index, s, branch);
    else
      run_mlp(weights_.layers[index].mlp, s, branch);
  }

 private:
  using Routes = typename Ops::Routes;
  void run_mlp(const MlpWeights& w, const State& s, const Branch<T>& branch);
  Rows<T> run_inner(const MlpWeights& w, const State& s);
  void run_moe(size_t index, const State& s, const Branch<T>& branch);
  T* run_experts(size_t index, const State& s, const Routes& routes);
  void gate(const Rows<T>& gates, int64_t rows, int64_t cols, bool clamped);

  const ModelTraits& traits_;
  const ModelWeights& weights_;
  Ops& ops_;
  typename Ops::Scratch inner_, router_, gathered_, expert_inner_, expert_out_;
};

template <class Ops>
void LayerMlp<Ops>::run_mlp(const MlpWeights& w, const State& s, const Branch<T>& branch) {
  const Rows<T> inner = run_inner(w, s);
  linear(ops_, w.down, s.rows, inner, branch.y, {.adds = branch.adds});
}

// [rows, ffn]; gates and ups stay side by side where the product does not gate.
template <class Ops>
auto LayerMlp<Ops>::run_inner(const MlpWeights& w, const State& s) -> Rows<T> {
  const int64_t ffn = w.up.w.rows;
  const bool gates_in_product =
      Ops::kGatesInProducts && w.gate_up.present() && traits_.activation == Activation::kSilu;
  const int64_t width = w.gate.present() && !gates_in_product ? 2 * ffn : ffn;
  const Rows<T> inner{ops_.take(inner_, s.rows * width), width};
  if (!w.gate.present()) {
    linear(ops_, w.up, s.rows, s.in, inner);
    ops_.activate(traits_.activation, inner.data, s.rows * ffn);
    return inner;
  }
  if (w.gate_up.present()) {
    linear(ops_, w.gate_up, s.rows, s.in, inner, {.gated = gates_in_product});
  } else {
    linear(ops_, w.gate, s.rows, s.in, inner);
    linear(ops_, w.up, s.rows, s.in, Rows<T>{inner.data + ffn, width});
  }
  if (!gates_in_product) gate(inner, s.rows, ffn, false);
  return inner;
}

template <class Ops>
void LayerMlp<Ops>::run_moe(size_t index, const State& s, const Branch<T>& branch) {
  const MoeWeights& w = weights_.layers[index].moe;
  const MoeTraits& moe = traits_.moe;
  const Rows<float> logits{ops_.template take<float>(router_, s.rows * moe.experts), moe.experts};
  linear(ops_, w.router, s.rows, s.in, logits, {.exact = true});  // a rounded score may choose another expert
  const Routes routes = ops_.route(router_args(moe, logits.data, s.rows, w.selection_bias));
  const T* out = run_experts(index, s, routes);
  if (moe.shared_hidden > 0)
    run_mlp(w.shared, s, branch);
  else if (!branch.adds)
    ops_.fill_zero(branch.y.data, s.rows * traits_.hidden);
  ops_.combine_experts(routes, s.rows, out, branch.y.data);
}

// The experts' outputs [routes.count, hidden], in the experts' order.
template <class Ops>
auto LayerMlp<Ops>::run_experts(size_t index, const State& s, const Routes& routes) -> T* {
  const MoeTraits& moe = traits_.moe;
  const auto& tables = ops_.tables(index);
  const int64_t hidden = traits_.hidden, inner = moe.expert_hidden;
  const Rows<T> gathered{ops_.take(gathered_, routes.count * hidden), hidden};
  ops_.gather_rows(routes, s.in.data, gathered.data);
  const bool joined = !weights_.layers[index].moe.gate_up.empty();
  const bool gates_in_product =
      Ops::kGatesInProducts && joined && traits_.activation == Activation::kSilu && !moe.clamped_swiglu;
  const int64_t width = gates_in_product ? inner : 2 * inner;
  const Rows<T> gates{ops_.take(expert_inner_, routes.count * width), width};
  if (joined) {
    ops_.multiply_experts(tables.gate_up, routes, gathered, gates, {.gated = gates_in_product});
  } else {
    ops_.multiply_experts(tables.gate, routes, gathered, gates, {});
    ops_.multiply_experts(tables.up, routes, gathered, {gates.data + inner, width}, {});
  }
  if (!gates_in_product) gate(gates, routes.count, inner, moe.clamped_swiglu);
  T* out = ops_.take(expert_out_, routes.count * hidden);
  ops_.multiply_experts(tables.down, routes, gates, {out, hidden}, {});
  return out;
}

// Gates, and what they let through beside them, in rows of 2 * cols: the result takes the gates' place.
template <class Ops>
void LayerMlp<Ops>::gate(const Rows<T>& gates, int64_t rows, int64_t cols, bool clamped) {
  const typename Ops::GatedArgs args{.kind = traits_.activation,
      .gate = gates.data,
      .gate_stride = gates.stride,
      .up = gates.data + cols,
      .up_stride = gates.stride,
      .y = gates.data,
      .y_stride = gates.stride,
      .rows = rows,
      .cols = cols};
  if (clamped)
    ops_.clamped_swiglu({.rows = args, .limit = traits_.moe.swiglu_limit});
  else
    ops_.gated_activation(args);
}

}  // namespace cheetah
