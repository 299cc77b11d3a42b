#include "kernels/activation/activation_cuda.h"
#include "model/cuda/cuda_forward.h"

namespace cheetah {

template <class T>
void CudaForward<T>::run_mlp(const MlpWeights& w, const T* x, T* y, bool adds) {
  const int64_t ffn = w.up.w.rows;
  linear<T>(w.down, run_inner(w, x), keeps_gates(w) ? 2 * ffn : ffn, {y, traits_.hidden}, {.adds = adds});
}

// [rows_, ffn]; gate and up stay side by side where one kernel cannot do both.
template <class T>
T* CudaForward<T>::run_inner(const MlpWeights& w, const T* x) {
  const int64_t hidden = traits_.hidden, ffn = w.up.w.rows, stride = 2 * ffn;
  T* inner = take(inner_, rows_ * (keeps_gates(w) ? stride : ffn));
  if (gates_in_product(w)) {
    linear<T>(w.gate_up, x, hidden, {inner, ffn}, {.gated = true});
    return inner;
  }
  if (!w.gate.present()) {
    linear<T>(w.up, x, hidden, {inner, ffn});
    gpu::activate(traits_.activation, inner, rows_ * ffn, stream());
    return inner;
  }
  if (w.gate_up.present()) {
    linear<T>(w.gate_up, x, hidden, {inner, stride});
  } else {
    linear<T>(w.gate, x, hidden, {inner, stride});
    linear<T>(w.up, x, hidden, {inner + ffn, stride});
  }
  gpu::gated_activation<T>({.kind = traits_.activation,
                            .gate = inner,
                            .gate_stride = stride,
                            .up = inner + ffn,
                            .up_stride = stride,
                            .y = inner,
                            .y_stride = stride,
                            .rows = rows_,
                            .cols = ffn},
                           stream());
  return inner;
}

template <class T>
void CudaForward<T>::run_moe(size_t index, const T* x, T* y, bool adds) {
  const MoeWeights& w = weights_.layers[index].moe;
  const int64_t hidden = traits_.hidden;
  route_tokens(w, x);
  const T* out = run_experts(device_.tables(index), x);
  if (traits_.moe.shared_hidden > 0)
    run_mlp(w.shared, x, y, adds);
  else if (!adds)
    gpu::fill_bytes(y, 0, rows_ * hidden * static_cast<int64_t>(sizeof(T)), stream());
  gpu::combine_experts<T>({.out = out,
                           .row_of = order_.row_of,
                           .weights = take<float>(expert_weights_, rows_ * traits_.moe.top_k),
                           .tokens = rows_,
                           .top_k = traits_.moe.top_k,
                           .cols = hidden,
                           .y = y},
                          stream());
}

template <class T>
void CudaForward<T>::route_tokens(const MoeWeights& w, const T* x) {
  const MoeTraits& moe = traits_.moe;
  const int64_t routed = rows_ * moe.top_k;
  float* logits = take<float>(router_, rows_ * moe.experts);
  linear<float>(w.router, x, traits_.hidden, {logits, moe.experts});
  auto* ids = take<int32_t>(expert_ids_, routed);
  gpu::route(router_args(moe, logits, rows_, w.selection_bias), ids, take<float>(expert_weights_, routed),
             stream());
  auto* numbers = take<int32_t>(order_buffer_, moe.experts + 1 + 2 * routed);
  order_ = {
      .offsets = numbers, .source = numbers + moe.experts + 1, .row_of = numbers + moe.experts + 1 + routed};
  gpu::order_by_expert(ids, routed, moe.experts, order_, stream());
}

// The experts' outputs [rows * top_k, hidden], in the experts' order.
template <class T>
T* CudaForward<T>::run_experts(const DeviceLayerTables& tables, const T* x) {
  const MoeTraits& moe = traits_.moe;
  const int64_t hidden = traits_.hidden, inner = moe.expert_hidden, stride = 2 * inner,
                routed = rows_ * moe.top_k;
  T* gathered = take(gathered_, routed * hidden);
  gpu::copy_rows<T, T>({.x = x,
                        .x_stride = hidden,
                        .source = order_.source,
                        .divisor = moe.top_k,
                        .y = gathered,
                        .y_stride = hidden,
                        .rows = routed,
                        .cols = hidden},
                       stream());
  const bool gated_in_product = gates_experts_in_product(tables);
  const int64_t kept = gated_in_product ? inner : stride;
  T* gate = take(expert_inner_, routed * kept);
  const auto multiply = [&](const gpu::WeightMatrices& w, const T* from, int64_t from_stride, const Rows& to,
                            bool gated = false) {
    const int64_t narrowed = std::is_same_v<T, Bf16> ? narrowed_bytes(w.dtype, routed, w.cols) : 0;
    gpu::grouped_gemm<T, T>({.x = from,
                             .x_stride = from_stride,
                             .rows = routed,
                             .w = w,
                             .offsets = order_.offsets,
                             .gated = gated,
                             .y = to.data,
                             .y_stride = to.stride,
                             .narrowed = take<std::byte>(narrowed_, narrowed),
                             .narrowed_bytes = narrowed},
                            stream());
  };
  if (tables.gate_up.count > 0) {
    multiply(tables.gate_up, gathered, hidden, {gate, kept}, gated_in_product);
  } else {
    multiply(tables.gate, gathered, hidden, {gate, stride});
    multiply(tables.up, gathered, hidden, {gate + inner, stride});
  }
  if (!gated_in_product) gate_experts(gate, routed);
  T* out = take(expert_out_, routed * hidden);
  multiply(tables.down, gate, kept, {out, hidden});
  return out;
}

// Gates and what they let through, side by side in `rows` rows.
template <class T>
void CudaForward<T>::gate_experts(T* gate, int64_t rows) {
  const MoeTraits& moe = traits_.moe;
  const int64_t inner = moe.expert_hidden, stride = 2 * inner;
  const gpu::GatedArgs<T> args{.kind = traits_.activation,
                               .gate = gate,
                               .gate_stride = stride,
                               .up = gate + inner,
                               .up_stride = stride,
                               .y = gate,
                               .y_stride = stride,
                               .rows = rows,
                               .cols = inner};
  if (moe.clamped_swiglu)
    gpu::clamped_swiglu<T>({.rows = args, .limit = moe.swiglu_limit}, stream());
  else
    gpu::gated_activation(args, stream());
}

template class CudaForward<float>;
template class CudaForward<Bf16>;

}  // namespace cheetah
