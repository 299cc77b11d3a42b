// SPDX-License-Identifier: MIT
// A block of keys and values from the cache's pages into F32 panels. Included once per target.
#if defined(CHEETAH_KERNELS_ATTENTION_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CHEETAH_KERNELS_ATTENTION_PANELS_INL_H_
#undef CHEETAH_KERNELS_ATTENTION_PANELS_INL_H_
#else
#define CHEETAH_KERNELS_ATTENTION_PANELS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <span>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/attention/scaled_row.h"
#include "kernels/attention/tile.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah::attention_tile {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Element is float, hwy::float16_t or hwy::bfloat16_t.
template <class Element, class D>
HWY_INLINE hn::Vec<D> load_as_float(D d, const Element* from) {
  if constexpr (std::is_same_v<Element, float>) {
    return hn::LoadU(d, from);
  } else {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<Element, D>(), from));
  }
}

#if HWY_TARGET != HWY_SCALAR
// 4 x 4 transposes inside the 128-bit blocks of rows 4g .. 4g + 3: afterwards block b of vector 4g + j holds
// column 4b + j of those rows.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void transpose_in_blocks(D d, V* v) {
  const hn::RepartitionToWide<D> wide;
  const auto low_ab = hn::BitCast(wide, hn::InterleaveLower(d, v[0], v[1]));
  const auto high_ab = hn::BitCast(wide, hn::InterleaveUpper(d, v[0], v[1]));
  const auto low_cd = hn::BitCast(wide, hn::InterleaveLower(d, v[2], v[3]));
  const auto high_cd = hn::BitCast(wide, hn::InterleaveUpper(d, v[2], v[3]));
  v[0] = hn::BitCast(d, hn::InterleaveLower(wide, low_ab, low_cd));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(wide, low_ab, low_cd));
  v[2] = hn::BitCast(d, hn::InterleaveLower(wide, high_ab, high_cd));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(wide, high_ab, high_cd));
}

// Blocks of four vectors gathered: out[b] = block b of v[0], v[4], v[8], v[12], in that order.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void gather_four_blocks(D d, const V* v, V* out) {
  const V low_ac = hn::ConcatLowerLower(d, v[8], v[0]), high_ac = hn::ConcatUpperUpper(d, v[8], v[0]);
  const V low_bd = hn::ConcatLowerLower(d, v[12], v[4]), high_bd = hn::ConcatUpperUpper(d, v[12], v[4]);
  out[0] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(low_bd), low_ac);
  out[1] = hn::OddEvenBlocks(low_bd, hn::SwapAdjacentBlocks(low_ac));
  out[2] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(high_bd), high_ac);
  out[3] = hn::OddEvenBlocks(high_bd, hn::SwapAdjacentBlocks(high_ac));
}

#endif

// Stores the transpose of kLanes rows of kLanes numbers: column c to panel + c * kBlock.
template <size_t kLanes, class D, class V = hn::Vec<D>>
HWY_INLINE void store_transposed(D d, V* v, float* panel) {
#if HWY_TARGET == HWY_SCALAR
  hn::StoreU(v[0], d, panel);
#else
#pragma GCC unroll 4
  for (size_t row = 0; row < kLanes; row += 4) transpose_in_blocks(d, v + row);
#pragma GCC unroll 4
  for (size_t j = 0; j < 4; ++j) {
    V out[4];
    if constexpr (kLanes == 16) {
      gather_four_blocks(d, v + j, out);
    } else if constexpr (kLanes == 8) {
      out[0] = hn::ConcatLowerLower(d, v[4 + j], v[j]);
      out[1] = hn::ConcatUpperUpper(d, v[4 + j], v[j]);
    } else {
      out[0] = v[j];
    }
    for (size_t b = 0; b < kLanes / 4; ++b) hn::StoreU(out[b], d, panel + (4 * b + j) * kBlock);
  }
#endif
}

// Keys [first, first + lanes) of the block, transposed into their columns of the panel.
template <class Element>
HWY_INLINE void pack_key_columns(const Element* const* rows, int64_t key_dim, float* panel) {
  const hn::CappedTag<float, kMaxLanes> d;
  constexpr size_t kLanes = hn::MaxLanes(d);
  int64_t dim = 0;
  for (; dim + static_cast<int64_t>(kLanes) <= key_dim; dim += kLanes) {
    hn::Vec<decltype(d)> v[kLanes];
#pragma GCC unroll 16
    for (size_t key = 0; key < kLanes; ++key) v[key] = load_as_float(d, rows[key] + dim);
    store_transposed<kLanes>(d, v, panel + dim * kBlock);
  }
  const hn::CappedTag<float, 1> one;
  for (; dim < key_dim; ++dim)
    for (size_t key = 0; key < kLanes; ++key)
      hn::StoreU(load_as_float(one, rows[key] + dim), one, panel + dim * kBlock + static_cast<int64_t>(key));
}

template <class Element>
HWY_INLINE void unpack_value_row(const Element* row, int64_t value_dim, int64_t stride, float* out) {
  const hn::CappedTag<float, kMaxLanes> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= value_dim; i += lanes) hn::StoreU(load_as_float(d, row + i), d, out + i);
  const hn::CappedTag<float, 1> one;
  for (; i < value_dim; ++i) hn::StoreU(load_as_float(one, row + i), one, out + i);
  for (; i < stride; ++i) out[i] = 0.f;
}

// Positions [base + begin, base + end) of a block that starts at `base`.
struct BlockRange {
  int64_t base = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// Which rows of the cache hold positions [base + begin, base + end). A division per page, not per position:
// it would cost more than the rows' arithmetic.
HWY_INLINE void find_rows(const PagedKv& kv, const Tile& tile, const BlockRange& block, int64_t* rows) {
  for (int64_t k = block.begin; k < block.end;) {
    const int64_t position = block.base + k, index = position / kv.page_tokens;
    const int64_t slot = position - index * kv.page_tokens,
                  page = tile.sequence->pages[static_cast<size_t>(index)];
    const int64_t first = (page * kv.kv_heads + tile.kv_head) * kv.page_tokens + slot;
    const int64_t count = std::min(kv.page_tokens - slot, block.end - k);
    for (int64_t i = 0; i < count; ++i) rows[k + i] = first + i;
    k += count;
  }
}

// The block that is packed after this one: the tile's next, or the first of the tile that follows.
struct NextBlock {
  const Tile* tile;
  BlockRange range;
};

HWY_INLINE NextBlock block_after(const Tile& tile, const BlockRange& block) {
  const int64_t base = block.base + kBlock;
  if (base < tile.key_end) return {&tile, {base, 0, std::min(tile.key_end - base, kBlock)}};
  if (!tile.after) return {&tile, {}};
  const int64_t first = tile.after->key_begin / kBlock * kBlock;
  return {tile.after, {first, tile.after->key_begin - first, std::min(tile.after->key_end - first, kBlock)}};
}

// Asks for the next block's rows, a share of them at each step of packing this one: pages end the hardware's
// streams every few kilobytes, and without this a long context runs at half the speed.
template <class Element>
class RowFetcher {
 public:
  RowFetcher(const std::byte* data, int64_t dim, std::span<const int64_t> rows, int64_t steps)
      : data_(reinterpret_cast<const Element*>(data)),
        dim_(dim),
        rows_(rows),
        share_((rows.size() + static_cast<size_t>(steps) - 1) / static_cast<size_t>(steps)) {}
  HWY_INLINE void step() {
    constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(Element));
    const size_t end = std::min(rows_.size(), at_ + share_);
    for (; at_ < end; ++at_)
      for (int64_t i = 0; i < dim_; i += kLine) __builtin_prefetch(data_ + rows_[at_] * dim_ + i, 0, 2);
  }

 private:
  const Element* data_;
  int64_t dim_;
  std::span<const int64_t> rows_;
  size_t share_, at_ = 0;
};

// Keys of one page and where they go in a block.
struct KeyRun {
  int64_t slot;    // of the page
  int64_t column;  // of the block
  int64_t count;
};

// A run of keys, dimension by dimension, into the panel's columns. Where page and block have room the last
// vector is a whole one: what it brings beyond the keys wanted is overwritten by the next page's, or computed
// with and then hidden.
template <class Element>
HWY_INLINE void copy_key_columns(const Element* page, const PagedKv& kv, const KeyRun& run, float* panel) {
  const hn::CappedTag<float, kMaxLanes> d;
  constexpr auto kLanes = static_cast<int64_t>(hn::MaxLanes(d));
  const hn::CappedTag<float, 1> one;
  const int64_t count = run.count, rounded = (count + kLanes - 1) / kLanes * kLanes;
  const bool room = run.slot + rounded <= kv.page_tokens && run.column + rounded <= kBlock;
  const int64_t whole = room ? count : count - kLanes + 1;
  for (int64_t dim = 0; dim < kv.key_dim; ++dim) {
    const Element* from = page + dim * kv.page_tokens + run.slot;
    float* to = panel + dim * kBlock + run.column;
    int64_t i = 0;
    for (; i < whole; i += kLanes) hn::StoreU(load_as_float(d, from + i), d, to + i);
    for (; i < count; ++i) hn::StoreU(load_as_float(one, from + i), one, to + i);
  }
}

// The keys of a block where they lie by dimension, page after page.
template <class Element>
HWY_INLINE void copy_keys(
    const PagedKv& kv, const Tile& tile, const BlockRange& block, float* panel, RowFetcher<Element>& next) {
  for (int64_t k = block.begin; k < block.end;) {
    const int64_t position = block.base + k, index = position / kv.page_tokens;
    const int64_t slot = position - index * kv.page_tokens,
                  page = tile.sequence->pages[static_cast<size_t>(index)];
    const int64_t count = std::min(kv.page_tokens - slot, block.end - k);
    const int64_t at = (page * kv.kv_heads + tile.kv_head) * kv.key_dim * kv.page_tokens;
    copy_key_columns(reinterpret_cast<const Element*>(kv.keys) + at, kv, {slot, k, count}, panel);
    next.step();
    k += count;
  }
}

// … and where they lie in rows.
template <class Element>
HWY_INLINE void transpose_keys(const PagedKv& kv, const BlockRange& block, const int64_t* rows,
    const Workspace& work, RowFetcher<Element>& next) {
  const hn::CappedTag<float, kMaxLanes> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Element* keys[kBlock];
  for (int64_t k = 0; k < kBlock; ++k)
    keys[k] = k >= block.begin && k < block.end
                  ? reinterpret_cast<const Element*>(kv.keys) + rows[k] * kv.key_dim
                  : reinterpret_cast<const Element*>(work.zeros);
  for (int64_t k = block.begin / lanes * lanes; k < block.end; k += lanes) {
    pack_key_columns<Element>(keys + k, kv.key_dim, work.keys + k);
    next.step();
  }
}

template <class Element>
void fill_panels(const PagedKv& kv, const Tile& tile, const BlockRange& block, const Workspace& work) {
  int64_t rows[kBlock], next_rows[kBlock];
  const NextBlock next = block_after(tile, block);
  find_rows(kv, tile, block, rows);
  find_rows(kv, *next.tile, next.range, next_rows);
  const std::span<const int64_t> wanted(next_rows + next.range.begin, next_rows + next.range.end);
  constexpr int64_t kKeySteps = 4;  // a page or a vector of keys: about as many in a block
  RowFetcher<Element> next_keys(kv.keys, kv.key_dim, wanted, kKeySteps);
  if (kv.values)
    copy_keys(kv, tile, block, work.keys, next_keys);
  else
    transpose_keys(kv, block, rows, work, next_keys);
  const int64_t stride = value_stride(kv);
  const Element* data = reinterpret_cast<const Element*>(kv.values ? kv.values : kv.keys);
  const int64_t dim = kv.values ? kv.value_dim : kv.key_dim;
  RowFetcher<Element> next_values(kv.values, kv.value_dim, wanted, block.end - block.begin);
  for (int64_t k = block.begin; k < block.end; ++k) {
    unpack_value_row<Element>(data + rows[k] * dim, kv.value_dim, stride, work.values + k * stride);
    if (kv.values) next_values.step();
  }
}

// E4M3 with its exponent where F16 has it is 256 times too small.
template <class D>
HWY_INLINE hn::Vec<D> load_code(D d, DType dtype, const std::byte* from) {
  if (dtype == DType::kI8) {
    const hn::Rebind<int8_t, D> narrow;
    return hn::ConvertTo(
        d, hn::PromoteTo(hn::RebindToSigned<D>(), hn::LoadU(narrow, reinterpret_cast<const int8_t*>(from))));
  }
  const hn::Rebind<uint8_t, D> narrow;
  const hn::Rebind<uint16_t, D> d16;
  const auto bits = hn::PromoteTo(d16, hn::LoadU(narrow, reinterpret_cast<const uint8_t*>(from)));
  const auto magnitude = hn::ShiftLeft<7>(hn::And(bits, hn::Set(d16, 0x7F)));
  const auto sign = hn::ShiftLeft<8>(hn::And(bits, hn::Set(d16, 0x80)));
  const auto half = hn::BitCast(hn::Rebind<hwy::float16_t, D>(), hn::Or(magnitude, sign));
  return hn::Mul(hn::PromoteTo(d, half), hn::Set(d, 256.f));
}

// The first `count` numbers of a row whose scale follows `dim` codes.
HWY_INLINE void widen_scaled_row(DType dtype, const std::byte* row, int64_t dim, int64_t count, float* out) {
  const hn::CappedTag<float, kMaxLanes> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float scale = row_scale(row, dim);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Mul(load_code(d, dtype, row + i), hn::Set(d, scale)), d, out + i);
  for (; i < count; ++i) out[i] = code_value(dtype, row[i]) * scale;
}

// As fill_panels, for rows with a scale.
HWY_INLINE void fill_panels_scaled(
    const PagedKv& kv, const Tile& tile, const BlockRange& block, const Workspace& work) {
  const hn::CappedTag<float, kMaxLanes> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t key_bytes = cache_row_bytes(kv.dtype, kv.key_dim),
                value_bytes = cache_row_bytes(kv.dtype, kv.value_dim), stride = value_stride(kv);
  int64_t rows[kBlock];
  find_rows(kv, tile, block, rows);
  for (int64_t k = block.begin / lanes * lanes; k < block.end; k += lanes) {
    const float* keys[kMaxLanes];
    for (int64_t i = 0; i < lanes; ++i) {
      keys[i] = work.zeros;
      if (k + i < block.begin || k + i >= block.end) continue;
      float* widened = work.widened + i * kv.key_dim;
      widen_scaled_row(kv.dtype, kv.keys + rows[k + i] * key_bytes, kv.key_dim, kv.key_dim, widened);
      keys[i] = widened;
    }
    pack_key_columns<float>(keys, kv.key_dim, work.keys + k);
  }
  for (int64_t k = block.begin; k < block.end; ++k) {
    float* out = work.values + k * stride;
    if (kv.values)
      widen_scaled_row(kv.dtype, kv.values + rows[k] * value_bytes, kv.value_dim, kv.value_dim, out);
    else
      widen_scaled_row(kv.dtype, kv.keys + rows[k] * key_bytes, kv.key_dim, kv.value_dim, out);
    std::fill(out + kv.value_dim, out + stride, 0.f);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cheetah::attention_tile
HWY_AFTER_NAMESPACE();

#endif
