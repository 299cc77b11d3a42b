// SPDX-License-Identifier: MIT
// A block of keys and values used where it lies in the cache's pages, widened on the way into registers. For
// tiles of few rows (a decode step), which use a block once: panels of keys and values would fill L1 just to
// be read back. Each output is the same chain of multiply-adds as from panels (products-inl.h). Included once
// per target.
#if defined(CHEETAH_KERNELS_ATTENTION_DIRECT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CHEETAH_KERNELS_ATTENTION_DIRECT_INL_H_
#undef CHEETAH_KERNELS_ATTENTION_DIRECT_INL_H_
#else
#define CHEETAH_KERNELS_ATTENTION_DIRECT_INL_H_
#endif

#include "kernels/attention/panels-inl.h"
#include "kernels/attention/products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah::attention_tile {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr int kBlockVectors = static_cast<int>(kBlock / kLanes);

// Where a block lies. Vectors without a key of the block point to another's: their scores are hidden.
template <class Element>
struct BlockPlaces {
  const Element* keys[kBlockVectors];  // dimension 0 of kLanes keys; dimension d is d * page_tokens further
  const Element* values[kBlock];       // rows
};

// Whole vectors of keys lie in one page, and whole vectors of values in one row.
HWY_INLINE bool fits_direct(const PagedKv& kv, const Tile& tile) {
  return tile.rows <= kGroupRows && keys_lie_by_dimension(kv) && kv.page_tokens % kLanes == 0 &&
         kv.value_dim % kLanes == 0;
}

template <class Element>
HWY_INLINE void find_places(
    const PagedKv& kv, const Tile& tile, const BlockRange& block, BlockPlaces<Element>& places) {
  const auto* keys = reinterpret_cast<const Element*>(kv.keys);
  const auto* values = reinterpret_cast<const Element*>(kv.values);
  const Element* any = nullptr;
  for (int64_t k = block.begin; k < block.end;) {
    const int64_t position = block.base + k, index = position / kv.page_tokens;
    const int64_t slot = position - index * kv.page_tokens,
                  page = tile.sequence->pages[static_cast<size_t>(index)];
    const int64_t head = (page * kv.kv_heads + tile.kv_head) * kv.page_tokens;
    const int64_t count = std::min(kv.page_tokens - slot, block.end - k);
    for (int64_t i = 0; i < count; ++i) places.values[k + i] = values + (head + slot + i) * kv.value_dim;
    any = keys + head * kv.key_dim;
    for (int64_t c = k / kLanes; c <= (k + count - 1) / kLanes; ++c)
      places.keys[c] = any + slot - k + c * kLanes;
    k += count;
  }
  for (int64_t c = 0; c < block.begin / kLanes; ++c) places.keys[c] = any;
  for (int64_t c = (block.end + kLanes - 1) / kLanes; c < kBlockVectors; ++c) places.keys[c] = any;
}

// As score_group. Fetches the next block's keys meanwhile.
template <int kRowsNow, class Element>
void score_direct(const float* q, const PagedKv& kv, const BlockPlaces<Element>& now,
    const BlockPlaces<Element>& next, float* scores) {
  constexpr int64_t kLineDims = 64 / static_cast<int64_t>(sizeof(Element)) / kLanes;  // of a line of keys
  const Tag tag;
  for (int first = 0; first < kBlockVectors; first += kGroupVectors) {
    Vector sum[kRowsNow][kGroupVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRowsNow; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < kGroupVectors; ++c) sum[r][c] = hn::Zero(tag);
    for (int64_t d = 0; d < kv.key_dim; ++d) {
      Vector key[kGroupVectors];
#pragma GCC unroll 8
      for (int c = 0; c < kGroupVectors; ++c) {
        key[c] = load_as_float(tag, now.keys[first + c] + d * kv.page_tokens);
        if (kLineDims < 2 || d % kLineDims == 0)
          __builtin_prefetch(next.keys[first + c] + d * kv.page_tokens, 0, 2);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRowsNow; ++r) {
        const Vector factor = hn::Set(tag, q[r * kv.key_dim + d]);
#pragma GCC unroll 8
        for (int c = 0; c < kGroupVectors; ++c) sum[r][c] = hn::MulAdd(factor, key[c], sum[r][c]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRowsNow; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < kGroupVectors; ++c)
        hn::StoreU(sum[r][c], tag, scores + r * kBlock + (first + c) * kLanes);
  }
}

// As add_columns, of rows of Element; fetches the next block's rows meanwhile, on the way through the first
// columns.
template <int kRowsNow, int kVectors, class Element>
HWY_INLINE void add_columns_direct(
    const ValueProduct& p, const BlockPlaces<Element>& now, const BlockPlaces<Element>& next, int64_t i) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(Element));
  const Tag tag;
  Vector sum[kRowsNow][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRowsNow; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c)
      sum[r][c] = hn::Mul(hn::LoadU(tag, p.out + r * p.stride + i + c * kLanes), hn::Set(tag, p.decay[r]));
  const int64_t fetched = i == 0 ? p.stride : 0;
  for (int64_t k = p.key_begin; k < p.key_end; ++k) {
    Vector value[kVectors];
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) value[c] = load_as_float(tag, now.values[k] + i + c * kLanes);
    for (int64_t line = 0; line < fetched; line += kLine) __builtin_prefetch(next.values[k] + line, 0, 2);
#pragma GCC unroll 8
    for (int r = 0; r < kRowsNow; ++r) {
      const Vector weight = hn::Set(tag, p.weights[r * kBlock + k]);
#pragma GCC unroll 8
      for (int c = 0; c < kVectors; ++c) sum[r][c] = hn::MulAdd(weight, value[c], sum[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRowsNow; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) hn::StoreU(sum[r][c], tag, p.out + r * p.stride + i + c * kLanes);
}

template <int kRowsNow, class Element>
void add_values_direct(
    const ValueProduct& p, const BlockPlaces<Element>& now, const BlockPlaces<Element>& next) {
  int64_t i = 0;
  for (; i + kGroupVectors * kLanes <= p.stride; i += kGroupVectors * kLanes)
    add_columns_direct<kRowsNow, kGroupVectors>(p, now, next, i);
  for (; i + 2 * kLanes <= p.stride; i += 2 * kLanes) add_columns_direct<kRowsNow, 2>(p, now, next, i);
  for (; i < p.stride; i += kLanes) add_columns_direct<kRowsNow, 1>(p, now, next, i);
}

}  // namespace HWY_NAMESPACE
}  // namespace cheetah::attention_tile
HWY_AFTER_NAMESPACE();

#endif
