// SPDX-License-Identifier: MIT
#include "model/cuda/cuda_ops.h"

#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "kernels/embed/embed_cuda.h"
#include "kernels/rope/finish_qkv_cuda.h"

namespace cheetah {
namespace {

// How many numbers of W become BF16 at once, where the tensor cores do not take it as stored: all, or a part of a
// large vocabulary's head.
template <class T>
int64_t widened_numbers(const WeightMatrix& w, bool gated) {
  constexpr int64_t kPart = int64_t{1} << 27;
  if (!std::is_same_v<T, Bf16> || w.dtype == DType::kBF16 || w.dtype == DType::kF16) return 0;
  return gated ? w.rows * w.cols : std::min(kPart, w.rows * w.cols);
}

// Room for rows of x in FP8 or F16, where weights are.
template <class T>
int64_t narrowed_bytes(DType weights, int64_t rows, int64_t cols) {
  const bool narrows = weights == DType::kF8E4M3 || weights == DType::kF16;
  return std::is_same_v<T, Bf16> && narrows ? gpu::narrowed_x_bytes(rows, cols) : 0;
}

gpu::AttentionBatch batch_of(const CudaStep& step, size_t layer) {
  return step.inputs.attention(step.pool.group_of(static_cast<int64_t>(layer)));
}

}  // namespace

template <class T>
int32_t* CudaOps<T>::sampled_ids(int64_t count) {
  constexpr int64_t kLeast = 1024;
  return take<int32_t>(sampled_ids_, std::max(kLeast, count));
}

template <class T>
void CudaOps<T>::embed_tokens(const CudaStep& step, const WeightMatrix& table, float scale, T* y) {
  gpu::embed<T>({.table = table,
                    .ids = step.inputs.tokens(),
                    .fed = step.inputs.fed(),
                    .fed_ids = sampled_ids_.as<int32_t>(),
                    .chosen = step.inputs.tokens(),
                    .count = step.num_rows(),
                    .scale = scale,
                    .y = y,
                    .y_stride = table.cols},
      place_.stream);
}

template <class T>
void CudaOps<T>::embed_positions(const CudaStep& step, const WeightMatrix& table, T* y) {
  const int32_t* ids = step.inputs.positions();
  const int64_t rows = step.num_rows();
  gpu::embed<T>({.table = table, .ids = ids, .count = rows, .y = y, .y_stride = table.cols}, place_.stream);
}

template <class T>
template <class Y>
void CudaOps<T>::gemm(gpu::GemmArgs<T, Y> args, Finish finish) {
  args.gated = finish.gated;
  args.residual = finish.adds ? args.y : nullptr;
  args.residual_stride = args.y_stride;
  args.widened_numbers = widened_numbers<T>(args.w, finish.gated);
  args.widened = take<Bf16>(widened_, args.widened_numbers);
  args.narrowed_bytes = narrowed_bytes<T>(args.w.dtype, args.m, args.w.cols);
  args.narrowed = take<std::byte>(narrowed_, args.narrowed_bytes);
  gpu::gemm(args, place_.stream);
}

template <class T>
void CudaOps<T>::copy_rows(int64_t rows, int64_t cols, Rows<const T> x, Rows<T> y) {
  gpu::copy_rows<T, T>(
      {.x = x.data, .x_stride = x.stride, .y = y.data, .y_stride = y.stride, .rows = rows, .cols = cols},
      place_.stream);
}

template <class T>
void CudaOps<T>::copy_dense(gpu::CopyRowsArgs<T, T> args, int64_t width) {
  args.x_stride = args.y_stride = args.cols = width;
  gpu::copy_rows(args, place_.stream);
}

template <class T>
void CudaOps<T>::copy_wanted(const CudaStep& step, const T* x, T* y, int64_t width) {
  copy_dense({.x = x, .source = step.inputs.wanted_rows(), .y = y, .rows = step.num_wanted()}, width);
}

template <class T>
void CudaOps<T>::gather_rows(const CudaRoutes& routes, const T* x, T* y) {
  const int64_t top_k = traits_.moe.top_k;
  copy_dense({.x = x, .source = routes.order.source, .divisor = top_k, .y = y, .rows = routes.count},
      traits_.hidden);
}

template <class T>
void CudaOps<T>::keep_hidden(const CudaStep& step, const T* x) {
  const int64_t hidden = traits_.hidden, rows = step.inputs.num_hidden();
  if (rows == 0) return;
  auto* y = take<float>(hidden_, rows * hidden);
  gpu::copy_rows<T, float>(
      {.x = x, .x_stride = hidden, .y = y, .y_stride = hidden, .rows = rows, .cols = hidden}, place_.stream);
}

template <class T>
gpu::KvWriteArgs<T> CudaOps<T>::kv_write_args(
    const CudaStep& step, size_t layer, Rows<const T> keys, Rows<const T> values) const {
  return {.keys = keys.data,
      .key_stride = keys.stride,
      .values = values.data,
      .value_stride = values.stride,
      .kv = step.pool.layer(static_cast<int64_t>(layer)),
      .batch = batch_of(step, layer)};
}

template <class T>
bool CudaOps<T>::finish_qkv(const CudaStep& step, size_t layer, const Qkv<T>& qkv, const QkvFinish& finish) {
  const gpu::FinishQkvArgs<T> args{.q = qkv.q.data,
      .q_stride = qkv.q.stride,
      .heads = traits_.heads,
      .write = kv_write_args(step, layer, qkv.k, qkv.v),
      .q_norm = finish.q_norm,
      .k_norm = finish.k_norm,
      .eps = traits_.norm_eps,
      .weight_offset = traits_.norm_weight_offset,
      .angles = finish.rotates ? angles(step, finish.local_rope) : gpu::RopeAngles{}};
  if (!gpu::finish_qkv_fits(args)) return false;
  gpu::finish_qkv(args, place_.stream);
  return true;
}

template <class T>
gpu::RopeAngles CudaOps<T>::angles(const CudaStep& step, bool local) const {
  const RopeTraits& rope = local ? traits_.local_rope : traits_.rope;
  const DeviceRope& tables = local ? device_.local_rope() : device_.rope();
  CHEETAH_ASSERT(rope.long_inv_freq.empty() || rope.long_inv_freq.size() == rope.inv_freq.size(),
      "both frequencies turn the same pairs");
  return {.inv_freq = tables.inv_freq,
      .long_inv_freq = rope.long_inv_freq.empty() ? nullptr : tables.long_inv_freq,
      .uses_long = step.inputs.uses_long_rope(),
      .half = std::ssize(rope.inv_freq),
      .magnitude = rope.magnitude,
      .long_magnitude = rope.long_magnitude,
      .layout = rope.layout};
}

template <class T>
void CudaOps<T>::rotate(const CudaStep& step, const HeadRows<T>& x, int64_t heads, bool local) {
  gpu::rope<T>({.x = x.data,
                   .token_stride = x.stride,
                   .head_stride = x.step,
                   .tokens = step.num_rows(),
                   .heads = heads,
                   .positions = step.inputs.positions(),
                   .angles = angles(step, local)},
      place_.stream);
}

template <class T>
gpu::AttentionArgs<T> CudaOps<T>::attention_args(const CudaStep& step, size_t layer) {
  gpu::AttentionArgs<T> args{
      .kv = step.pool.layer(static_cast<int64_t>(layer)), .batch = batch_of(step, layer)};
  const int64_t sequences = args.batch.num_sequences, heads = traits_.heads;
  const int64_t parts = gpu::AttentionScratch::num_parts(sequences, heads, args.kv.value_dim);
  args.scratch = {.counters = take<uint32_t>(attention_counters_, sequences * heads),
      .parts = take<float>(attention_parts_, parts)};
  return args;
}

template <class T>
void CudaOps<T>::multiply_heads(
    const gpu::WeightMatrices& w, int64_t rows, const HeadRows<const T>& x, const HeadRows<T>& y) {
  gpu::grouped_gemm<T, T>({.x = x.data,
                              .x_stride = x.stride,
                              .x_step = x.step,
                              .rows = rows,
                              .w = w,
                              .y = y.data,
                              .y_stride = y.stride,
                              .y_step = y.step},
      place_.stream);
}

template <class T>
CudaRoutes CudaOps<T>::route(const RouterArgs& args) {
  const int64_t count = args.tokens * args.top_k;
  auto* ids = take<int32_t>(expert_ids_, count);
  auto* weights = take<float>(expert_weights_, count);
  gpu::route(args, ids, weights, place_.stream);
  auto* offsets = take<int32_t>(expert_order_, args.experts + 1 + 2 * count);
  auto* source = offsets + args.experts + 1;
  const CudaRoutes routes{.count = count,
      .order = {.offsets = offsets, .source = source, .row_of = source + count},
      .weights = weights};
  gpu::order_by_expert(ids, count, args.experts, routes.order, place_.stream);
  return routes;
}

template <class T>
void CudaOps<T>::multiply_experts(
    const gpu::WeightMatrices& w, const CudaRoutes& routes, Rows<const T> x, Rows<T> y, Finish finish) {
  const int64_t narrowed = narrowed_bytes<T>(w.dtype, routes.count, w.cols);
  gpu::grouped_gemm<T, T>({.x = x.data,
                              .x_stride = x.stride,
                              .rows = routes.count,
                              .w = w,
                              .offsets = routes.order.offsets,
                              .gated = finish.gated,
                              .y = y.data,
                              .y_stride = y.stride,
                              .narrowed = take<std::byte>(narrowed_, narrowed),
                              .narrowed_bytes = narrowed},
      place_.stream);
}

template <class T>
void CudaOps<T>::combine_experts(const CudaRoutes& routes, int64_t rows, const T* out, T* y) {
  gpu::combine_experts<T>({.out = out,
                              .row_of = routes.order.row_of,
                              .weights = routes.weights,
                              .tokens = rows,
                              .top_k = traits_.moe.top_k,
                              .cols = traits_.hidden,
                              .y = y},
      place_.stream);
}

template class CudaOps<float>;
template class CudaOps<Bf16>;
template void CudaOps<float>::gemm(gpu::GemmArgs<float, float>, Finish);
template void CudaOps<Bf16>::gemm(gpu::GemmArgs<Bf16, float>, Finish);
template void CudaOps<Bf16>::gemm(gpu::GemmArgs<Bf16, Bf16>, Finish);

}  // namespace cheetah
