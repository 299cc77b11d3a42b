// SPDX-License-Identifier: MIT
#include "model/cpu_ops.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "kernels/attention/attention.h"
#include "kernels/embed/embed.h"
#include "kernels/rope/rope.h"

namespace cheetah {
namespace {

void copy_numbers(const float* from, float* to, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

}  // namespace

CpuLayerTables CpuOps::tables(size_t layer) const {
  const LayerWeights& w = weights_.layers[layer];
  return {.k_up = {w.attention.k_up},
      .v_up = {w.attention.v_up},
      .gate_up = {w.moe.gate_up, w.moe.gate_bias},
      .gate = {w.moe.gate, w.moe.gate_bias},
      .up = {w.moe.up, w.moe.up_bias},
      .down = {w.moe.down, w.moe.down_bias}};
}

void CpuOps::embed_tokens(const CpuStep& step, const WeightMatrix& table, float scale, float* y) {
  embed({.table = table, .ids = step.batch.tokens, .scale = scale, .y = y, .y_stride = table.cols}, context_);
}

void CpuOps::embed_positions(const CpuStep& step, const WeightMatrix& table, float* y) {
  embed({.table = table, .ids = step.rows.positions, .y = y, .y_stride = table.cols}, context_);
}

void CpuOps::copy_rows(int64_t rows, int64_t cols, Rows<const float> x, Rows<float> y) {
  context_.pool.parallel_for(rows, 256, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) copy_numbers(x.data + i * x.stride, y.data + i * y.stride, cols);
  });
}

void CpuOps::copy_wanted(const CpuStep& step, const float* x, float* y, int64_t width) {
  for (const int32_t row : step.rows.wanted) {
    copy_numbers(x + row * width, y, width);
    y += width;
  }
}

void CpuOps::keep_hidden(const CpuStep& step, const float* x) {
  const auto count = std::ssize(step.batch.hidden_rows) * traits_.hidden;
  CHEETAH_ASSERT(std::ssize(step.batch.hidden) >= count, "room for the hidden states");
  std::copy_n(x, count, step.batch.hidden.data());
}

float* CpuOps::logits(const CpuStep& step) {
  CHEETAH_ASSERT(std::ssize(step.to_logits) >= step.num_logits() * traits_.vocab, "room for the logits");
  return step.to_logits.data();
}

void CpuOps::finish_logits(float* logits, int64_t count, float scale, float cap) {
  context_.pool.parallel_for(count, 4096, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      logits[i] *= scale;
      if (cap != 0.f) logits[i] = cap * std::tanh(logits[i] / cap);
    }
  });
}

// Neighbours that turn by the same frequencies go together.
void CpuOps::rotate(const CpuStep& step, const HeadRows<float>& x, int64_t heads, bool local) {
  const RopeTraits& traits = local ? traits_.local_rope : traits_.rope;
  const std::vector<int32_t>& outgrown = step.rows.uses_long_rope;
  for (size_t begin = 0, end = 0; begin < outgrown.size(); begin = end) {
    while (end < outgrown.size() && outgrown[end] == outgrown[begin]) ++end;
    const bool is_long = outgrown[begin] && !traits.long_inv_freq.empty();
    rope({.x = x.data + static_cast<int64_t>(begin) * x.stride,
             .token_stride = x.stride,
             .head_stride = x.step,
             .heads = heads,
             .positions = std::span(step.rows.positions).subspan(begin, end - begin),
             .inv_freq = is_long ? traits.long_inv_freq : traits.inv_freq,
             .magnitude = is_long ? traits.long_magnitude : traits.magnitude,
             .layout = traits.layout},
        context_);
  }
}

void CpuOps::write_kv(const CpuStep& step, size_t layer, Rows<const float> keys, Rows<const float> values) {
  const AttentionArgs cache = attention_args(step, layer);
  cheetah::write_kv({.keys = keys.data,
                        .key_stride = keys.stride,
                        .values = values.data,
                        .value_stride = values.stride,
                        .kv = cache.kv,
                        .sequences = cache.sequences},
      context_);
}

AttentionArgs CpuOps::attention_args(const CpuStep& step, size_t layer) const {
  const auto index = static_cast<int64_t>(layer);
  return {.kv = step.pool.layer(index), .sequences = step.batch.of_group(step.pool.group_of(index))};
}

void CpuOps::multiply_heads(
    const CpuMatrices& w, int64_t rows, const HeadRows<const float>& x, const HeadRows<float>& y) {
  if (rows == 1) {  // each head's part is one row of a grouped product: one job instead of one per head
    head_offsets_.resize(w.matrices.size() + 1);
    std::iota(head_offsets_.begin(), head_offsets_.end(), int64_t{0});
    grouped_gemm({.x = x.data,
                     .x_stride = x.step,
                     .experts = w.matrices,
                     .offsets = head_offsets_,
                     .biases = {},
                     .y = y.data,
                     .y_stride = y.step},
        context_);
    return;
  }
  for (int64_t h = 0; h < std::ssize(w.matrices); ++h)
    cheetah::gemm({.x = x.data + h * x.step,
                      .x_stride = x.stride,
                      .m = rows,
                      .w = w.matrices[static_cast<size_t>(h)],
                      .y = y.data + h * y.step,
                      .y_stride = y.stride},
        context_);
}

CpuRoutes CpuOps::route(const RouterArgs& args) {
  const auto count = static_cast<size_t>(args.tokens * args.top_k);
  expert_ids_.resize(count);
  expert_weights_.resize(count);
  expert_row_.resize(count);
  cheetah::route(args, expert_ids_, expert_weights_);
  order_by_expert(expert_ids_, args.experts, order_);
  for (size_t i = 0; i < count; ++i)
    expert_row_[static_cast<size_t>(order_.source[i])] = static_cast<int64_t>(i);
  return {.count = static_cast<int64_t>(count),
      .order = &order_,
      .row_of = expert_row_,
      .weights = expert_weights_};
}

void CpuOps::gather_rows(const CpuRoutes& routes, const float* x, float* y) {
  const int64_t hidden = traits_.hidden, top_k = traits_.moe.top_k;
  context_.pool.parallel_for(routes.count, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      copy_numbers(x + routes.order->source[static_cast<size_t>(i)] / top_k * hidden, y + i * hidden, hidden);
  });
}

void CpuOps::multiply_experts(
    const CpuMatrices& w, const CpuRoutes& routes, Rows<const float> x, Rows<float> y, Finish) {
  grouped_gemm({.x = x.data,
                   .x_stride = x.stride,
                   .experts = w.matrices,
                   .offsets = routes.order->offsets,
                   .biases = w.biases,
                   .y = y.data,
                   .y_stride = y.stride},
      context_);
}

// y += each row's choices, best first: an order that does not depend on the batch.
void CpuOps::combine_experts(const CpuRoutes& routes, int64_t rows, const float* out, float* y) {
  const int64_t hidden = traits_.hidden, top_k = traits_.moe.top_k;
  context_.pool.parallel_for(rows, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t choice = 0; choice < top_k; ++choice) {
        const auto at = static_cast<size_t>(row * top_k + choice);
        const float weight = routes.weights[at];
        const float* from = out + routes.row_of[at] * hidden;
        float* to = y + row * hidden;
        for (int64_t i = 0; i < hidden; ++i) to[i] += weight * from[i];
      }
  });
}

}  // namespace cheetah
