// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "kernels/attention/attention.h"
#include "kernels/attention/scaled_row.h"
#include "kernels/rows_at_once.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/write_kv.cpp"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "hwy/highway.h"
#include "tensor/float16.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Nearest, ties to even, as f32_to_bf16: Highway's own conversion cuts the low half off.
template <class D>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, D>> to_bf16(D, hn::Vec<D> value) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFF)));
  const auto quiet = hn::Or(bits, hn::Set(du, 0x400000));
  const auto is_nan = hn::Gt(hn::And(bits, hn::Set(du, 0x7FFFFFFF)), hn::Set(du, 0x7F800000));
  const auto high = hn::ShiftRight<16>(hn::IfThenElse(is_nan, quiet, rounded));
  return hn::DemoteTo(hn::Rebind<uint16_t, D>(), hn::BitCast(hn::RebindToSigned<D>(), high));
}

void store_f16(const float* row, uint16_t* out, int64_t count) {
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2  // with the conversion instruction; Highway's emulation elsewhere does not round
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, row + i)), half, reinterpret_cast<hwy::float16_t*>(out + i));
#endif
  for (; i < count; ++i) out[i] = f32_to_f16(row[i]);
}

void store_bf16(const float* row, uint16_t* out, int64_t count) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(to_bf16(d, hn::LoadU(d, row + i)), hn::Rebind<uint16_t, decltype(d)>(), out + i);
  for (; i < count; ++i) out[i] = f32_to_bf16(row[i]);
}

void store_row(DType dtype, const float* from, int64_t dim, std::byte* to) {
  if (dtype == DType::kF32)
    std::memcpy(to, from, static_cast<size_t>(dim) * sizeof(float));
  else if (dtype == DType::kF16)
    store_f16(from, reinterpret_cast<uint16_t*>(to), dim);
  else if (dtype == DType::kBF16)
    store_bf16(from, reinterpret_cast<uint16_t*>(to), dim);
  else
    store_scaled_row(dtype, from, dim, to);
}

template <class Element>
void scatter(const std::byte* from, int64_t count, int64_t stride, std::byte* to) {
  const auto* row = reinterpret_cast<const Element*>(from);
  auto* column = reinterpret_cast<Element*>(to);
  for (int64_t i = 0; i < count; ++i) column[i * stride] = row[i];
}

// Asks for the cache lines of one token's keys: a decode step's single tokens would wait for each of them.
void fetch_key_columns(const PagedKv& kv, int64_t row) {
  const int64_t slot = row % kv.page_tokens, size = traits_of(kv.dtype).block_bytes;
  const int64_t stride = kv.page_tokens * size, step = HWY_MAX(stride, int64_t{64});
  for (int64_t head = 0; head < kv.kv_heads; ++head) {
    const std::byte* panel =
        kv.keys + ((row - slot) + head * kv.page_tokens) * kv.key_dim * size + slot * size;
    for (int64_t at = 0; at < kv.key_dim * stride; at += step) __builtin_prefetch(panel + at, 1, 3);
  }
}

// One token's keys of all heads, each number into its dimension's row. `row` counts page slots, as in
// store_token.
void store_key_columns(const PagedKv& kv, int64_t row, const float* heads) {
  constexpr int64_t kAtOnce = 128;
  alignas(64) std::byte rounded[kAtOnce * sizeof(float)];
  const int64_t size = traits_of(kv.dtype).block_bytes, slot = row % kv.page_tokens;
  for (int64_t head = 0; head < kv.kv_heads; ++head) {
    std::byte* panel = kv.keys + ((row - slot) + head * kv.page_tokens) * kv.key_dim * size;
    for (int64_t dim = 0; dim < kv.key_dim; dim += kAtOnce) {
      const int64_t count = HWY_MIN(kAtOnce, kv.key_dim - dim);
      store_row(kv.dtype, heads + head * kv.key_dim + dim, count, rounded);
      std::byte* to = panel + (dim * kv.page_tokens + slot) * size;
      if (size == 4)
        scatter<uint32_t>(rounded, count, kv.page_tokens, to);
      else
        scatter<uint16_t>(rounded, count, kv.page_tokens, to);
    }
  }
}

// One token's rows of all heads, into its page slot.
void store_token(const PagedKv& kv, int64_t row, const float* heads, std::byte* cache, int64_t dim) {
  const int64_t bytes = cache_row_bytes(kv.dtype, dim);
  for (int64_t head = 0; head < kv.kv_heads; ++head)
    store_row(kv.dtype, heads + head * dim, dim, cache + (row + head * kv.page_tokens) * bytes);
}

void store_queries(const KvWriteArgs& args, const AttentionSequence& sequence, int64_t begin, int64_t end) {
  const PagedKv& kv = args.kv;
  for (int64_t query = begin; query < end; ++query) {
    const int64_t position = sequence.context_tokens - sequence.query_count + query;
    const int64_t page = sequence.pages[static_cast<size_t>(position / kv.page_tokens)];
    const int64_t row = page * kv.kv_heads * kv.page_tokens + position % kv.page_tokens;
    const int64_t token = sequence.query_begin + query;
    const float* keys = args.keys + token * args.key_stride;
    const bool by_dimension = keys_lie_by_dimension(kv);
    if (by_dimension && sequence.query_count == 1) fetch_key_columns(kv, row);
    if (by_dimension)
      store_key_columns(kv, row, keys);
    else
      store_token(kv, row, keys, kv.keys, kv.key_dim);
    if (kv.values) store_token(kv, row, args.values + token * args.value_stride, kv.values, kv.value_dim);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cheetah
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cheetah {

HWY_EXPORT(store_queries);

// Tokens of all sequences in a row, so that a decode step's single ones are shared among the workers too.
void write_kv(const KvWriteArgs& args, const CpuContext& context) {
  constexpr int64_t kScatter = 4;  // a number goes to its own cache line
  const auto store = HWY_DYNAMIC_DISPATCH(store_queries);
  int64_t tokens = 0;
  for (const AttentionSequence& sequence : args.sequences) tokens += sequence.query_count;
  const int64_t numbers = kScatter * args.kv.kv_heads * (args.kv.key_dim + args.kv.value_dim);
  context.pool.parallel_for(
      tokens, rows_at_once(context, tokens, numbers), [&](int64_t begin, int64_t end, int) {
        int64_t first = 0;  // token of the sequence
        for (const AttentionSequence& sequence : args.sequences) {
          const int64_t from = std::max<int64_t>(0, begin - first);
          const int64_t to = std::min(sequence.query_count, end - first);
          if (from < to) store(args, sequence, from, to);
          first += sequence.query_count;
        }
      });
}

}  // namespace cheetah
#endif  // HWY_ONCE
