// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/attention/scaled_row.h"
#include "tensor/float16.h"

namespace cheetah {
namespace {

// Number `index` of a row of `dim`.
float element(DType dtype, const std::byte* row, int64_t dim, int64_t index) {
  if (has_row_scale(dtype)) return code_value(dtype, row[index]) * row_scale(row, dim);
  if (dtype == DType::kF32) return reinterpret_cast<const float*>(row)[index];
  const uint16_t bits = reinterpret_cast<const uint16_t*>(row)[index];
  return dtype == DType::kF16 ? f16_to_f32(bits) : bf16_to_f32(bits);
}

// Where a position's key or value row of `dim` numbers begins.
int64_t row_offset(
    const PagedKv& kv, const AttentionSequence& sequence, int64_t head, int64_t position, int64_t dim) {
  const int64_t page = sequence.pages[static_cast<size_t>(position / kv.page_tokens)];
  return ((page * kv.kv_heads + head) * kv.page_tokens + position % kv.page_tokens) *
         cache_row_bytes(kv.dtype, dim);
}

int64_t first_visible(const AttentionArgs& args, int64_t position) {
  return args.window > 0 ? std::max<int64_t>(0, position - args.window + 1) : 0;
}

// Number `index` of a position's key.
float key_element(
    const PagedKv& kv, const AttentionSequence& sequence, int64_t head, int64_t position, int64_t index) {
  if (!keys_lie_by_dimension(kv))
    return element(
        kv.dtype, kv.keys + row_offset(kv, sequence, head, position, kv.key_dim), kv.key_dim, index);
  const int64_t page = sequence.pages[static_cast<size_t>(position / kv.page_tokens)];
  const int64_t at = ((page * kv.kv_heads + head) * kv.key_dim + index) * kv.page_tokens;
  return element(kv.dtype, kv.keys, 0, at + position % kv.page_tokens);
}

double score(const AttentionArgs& args, const AttentionSequence& sequence, const float* q, int64_t head,
    int64_t position) {
  double dot = 0;
  for (int64_t i = 0; i < args.kv.key_dim; ++i)
    dot += static_cast<double>(q[i]) * key_element(args.kv, sequence, head, position, i);
  dot *= args.scale;
  return args.soft_cap > 0 ? args.soft_cap * std::tanh(dot / args.soft_cap) : dot;
}

// Turns scores into weights that sum to one, the sink's share left out. The sink is -infinity where there is
// none.
void softmax(std::vector<double>& scores, double sink) {
  const double peak = std::max(sink, *std::ranges::max_element(scores));
  double sum = std::exp(sink - peak);
  for (double& value : scores) sum += value = std::exp(value - peak);
  for (double& value : scores) value /= sum;
}

void attend_row(const AttentionArgs& args, const AttentionSequence& sequence, int64_t query, int64_t head) {
  const PagedKv& kv = args.kv;
  const int64_t position = sequence.context_tokens - sequence.query_count + query;
  const int64_t first = first_visible(args, position), kv_head = head / (args.heads / kv.kv_heads);
  const int64_t row = sequence.query_begin + query;
  const float* q = args.q + row * args.q_stride + head * kv.key_dim;
  float* out = args.out + row * args.out_stride + head * kv.value_dim;

  std::vector<double> weights;
  for (int64_t p = first; p <= position; ++p) weights.push_back(score(args, sequence, q, kv_head, p));
  softmax(weights, args.sinks ? args.sinks[head] : -std::numeric_limits<double>::infinity());

  std::vector<double> sums(static_cast<size_t>(kv.value_dim), 0.0);
  for (int64_t p = first; p <= position; ++p) {
    const std::byte* data = kv.values ? kv.values : kv.keys;
    const int64_t dim = kv.values ? kv.value_dim : kv.key_dim;
    const std::byte* cached = data + row_offset(kv, sequence, kv_head, p, dim);
    for (int64_t i = 0; i < kv.value_dim; ++i)
      sums[static_cast<size_t>(i)] +=
          weights[static_cast<size_t>(p - first)] * element(kv.dtype, cached, dim, i);
  }
  for (int64_t i = 0; i < kv.value_dim; ++i) out[i] = static_cast<float>(sums[static_cast<size_t>(i)]);
}

}  // namespace

void attention_reference(const AttentionArgs& args) {
  for (const AttentionSequence& sequence : args.sequences)
    for (int64_t query = 0; query < sequence.query_count; ++query)
      for (int64_t head = 0; head < args.heads; ++head) attend_row(args, sequence, query, head);
}

Cost attention_cost(const AttentionArgs& args) {
  const PagedKv& kv = args.kv;
  const auto dims = static_cast<double>(kv.key_dim + kv.value_dim);
  const int64_t token_bytes =
      cache_row_bytes(kv.dtype, kv.key_dim) + (kv.values ? cache_row_bytes(kv.dtype, kv.value_dim) : 0);
  Cost cost;
  for (const AttentionSequence& sequence : args.sequences) {
    if (sequence.query_count == 0) continue;
    const int64_t begin = sequence.context_tokens - sequence.query_count;
    double pairs = 0;  // (query, visible key)
    for (int64_t p = begin; p < sequence.context_tokens; ++p)
      pairs += static_cast<double>(p + 1 - first_visible(args, p));
    cost.flops += 2 * static_cast<double>(args.heads) * pairs * dims;
    cost.bytes += static_cast<double>(kv.kv_heads * token_bytes) *
                  static_cast<double>(sequence.context_tokens - first_visible(args, begin));
    cost.bytes += 4 * static_cast<double>(sequence.query_count * args.heads) * dims;
  }
  return cost;
}

}  // namespace cheetah
