// SPDX-License-Identifier: MIT
// The two matrix products of a block, from F32 panels, in register tiles. Each output is one chain of
// multiply-adds in the order of its index, whatever the tile's shape: bits do not depend on how many rows
// are beside it. Included once per target.
#if defined(CHEETAH_KERNELS_ATTENTION_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CHEETAH_KERNELS_ATTENTION_PRODUCTS_INL_H_
#undef CHEETAH_KERNELS_ATTENTION_PRODUCTS_INL_H_
#else
#define CHEETAH_KERNELS_ATTENTION_PRODUCTS_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/attention/tile.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah::attention_tile {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::CappedTag<float, kMaxLanes>;
using Vector = hn::Vec<Tag>;
constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(Tag()));
// 6 x 4 accumulators with AVX-512's 32 registers, 6 x 2 with 16.
constexpr int kGroupRows = 6;
constexpr int kGroupVectors = kLanes == 16 ? 4 : 2;

// scores[r][k] = sum over d of q[r][d] * keys[d][k], for all kBlock keys.
template <int kRowsNow>
void score_group(const float* q, const float* keys, int64_t key_dim, float* scores) {
  const Tag tag;
  for (int64_t k = 0; k < kBlock; k += kGroupVectors * kLanes) {
    Vector sum[kRowsNow][kGroupVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRowsNow; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < kGroupVectors; ++c) sum[r][c] = hn::Zero(tag);
    for (int64_t d = 0; d < key_dim; ++d) {
      Vector key[kGroupVectors];
#pragma GCC unroll 8
      for (int c = 0; c < kGroupVectors; ++c) key[c] = hn::LoadU(tag, keys + d * kBlock + k + c * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRowsNow; ++r) {
        const Vector factor = hn::Set(tag, q[r * key_dim + d]);
#pragma GCC unroll 8
        for (int c = 0; c < kGroupVectors; ++c) sum[r][c] = hn::MulAdd(factor, key[c], sum[r][c]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRowsNow; ++r)
#pragma GCC unroll 8
      for (int c = 0; c < kGroupVectors; ++c)
        hn::StoreU(sum[r][c], tag, scores + r * kBlock + k + c * kLanes);
  }
}

struct ValueProduct {
  const float* weights;  // [rows, kBlock]
  const float* decay;    // [rows]
  const float* values;   // [kBlock, stride]
  float* out;            // [rows, stride]
  int64_t stride;
  int64_t key_begin, key_end;
};

// out[r][i..] = out[r][i..] * decay[r] + sum over k of weights[r][k] * values[k][i..], kVectors vectors wide.
template <int kRowsNow, int kVectors>
HWY_INLINE void add_columns(const ValueProduct& p, int64_t i) {
  const Tag tag;
  Vector sum[kRowsNow][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRowsNow; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c)
      sum[r][c] = hn::Mul(hn::LoadU(tag, p.out + r * p.stride + i + c * kLanes), hn::Set(tag, p.decay[r]));
  for (int64_t k = p.key_begin; k < p.key_end; ++k) {
    Vector value[kVectors];
#pragma GCC unroll 8
    for (int c = 0; c < kVectors; ++c) value[c] = hn::LoadU(tag, p.values + k * p.stride + i + c * kLanes);
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

template <int kRowsNow>
void add_values_group(const ValueProduct& p) {
  int64_t i = 0;
  for (; i + kGroupVectors * kLanes <= p.stride; i += kGroupVectors * kLanes)
    add_columns<kRowsNow, kGroupVectors>(p, i);
  for (; i + 2 * kLanes <= p.stride; i += 2 * kLanes) add_columns<kRowsNow, 2>(p, i);
  for (; i < p.stride; i += kLanes) add_columns<kRowsNow, 1>(p, i);
}

// Calls use.operator()<n>() for n = rows, 1 to kGroupRows.
template <int kRowsNow = kGroupRows, class Use>
HWY_INLINE void with_rows(int64_t rows, const Use& use) {
  if constexpr (kRowsNow > 1) {
    if (rows < kRowsNow) return with_rows<kRowsNow - 1>(rows, use);
  }
  use.template operator()<kRowsNow>();
}

}  // namespace HWY_NAMESPACE
}  // namespace cheetah::attention_tile
HWY_AFTER_NAMESPACE();

#endif
