// SPDX-License-Identifier: MIT
// Quantized weights for the integer dot product, 16 rows side by side (AVX-512 VNNI only). Included by
// foreach_target sources only.
//
// A group holds one 32-column block of 16 rows: 8 vectors of 16 x 4 unsigned levels (vector q: columns 4q to
// 4q + 3 of every row), so that a broadcast of four of x's bytes meets 16 rows at once. The value of a level
// u is scale * (u - offset) or scale * u - min.
#if defined(CHEETAH_KERNELS_GEMM_INT8_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CHEETAH_KERNELS_GEMM_INT8_PACK_INL_H_
#undef CHEETAH_KERNELS_GEMM_INT8_PACK_INL_H_
#else
#define CHEETAH_KERNELS_GEMM_INT8_PACK_INL_H_
#endif

#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "kernels/quant/blocks.h"

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3_DL
#include <immintrin.h>

HWY_BEFORE_NAMESPACE();
namespace cheetah::HWY_NAMESPACE {
namespace {

inline constexpr int kGroupRows = 16;
inline constexpr int64_t kGroupBytes = 512;  // of levels

// Where packed groups go: group g of a block of columns at levels + g * kGroupBytes, and so on.
struct PackedBlock {
  uint8_t* levels;
  float* scales;  // [16]
  float* mins;    // [16], for types with a minimum
};

// 16 rows of W, equally far apart: few registers hold all their addresses.
struct RowGroup {
  const uint8_t* first;
  int64_t stride;

  HWY_INLINE RowGroup at(int64_t bytes) const { return {first + bytes, stride}; }
  HWY_INLINE const uint8_t* row(int r) const { return first + r / 4 * 4 * stride + r % 4 * stride; }
};

// Within each 128-bit lane, the 4 x 4 transposition of dwords.
HWY_INLINE void transpose_lanes(__m512i v[4]) {
  const __m512i a = _mm512_unpacklo_epi32(v[0], v[1]), b = _mm512_unpackhi_epi32(v[0], v[1]);
  const __m512i c = _mm512_unpacklo_epi32(v[2], v[3]), d = _mm512_unpackhi_epi32(v[2], v[3]);
  v[0] = _mm512_unpacklo_epi64(a, c);
  v[1] = _mm512_unpackhi_epi64(a, c);
  v[2] = _mm512_unpacklo_epi64(b, d);
  v[3] = _mm512_unpackhi_epi64(b, d);
}

HWY_INLINE __m128i load16(const uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
HWY_INLINE __m256i load32(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

// 16 bytes of each of 16 rows: out[t] holds dword t of every row.
HWY_INLINE void load_16_bytes(const RowGroup& rows, __m512i out[4]) {
  for (int r = 0; r < 4; ++r) {
    __m512i v = _mm512_castsi128_si512(load16(rows.row(r)));
    v = _mm512_inserti32x4(v, load16(rows.row(r + 4)), 1);
    v = _mm512_inserti32x4(v, load16(rows.row(r + 8)), 2);
    out[r] = _mm512_inserti32x4(v, load16(rows.row(r + 12)), 3);
  }
  transpose_lanes(out);
}

// 32 bytes of each of 16 rows: out[t] holds dword t of every row.
HWY_INLINE void load_32_bytes(const RowGroup& rows, __m512i out[8]) {
  __m512i low[4], high[4];  // rows 0..7 and 8..15
  for (int r = 0; r < 4; ++r) {
    low[r] = _mm512_inserti64x4(_mm512_castsi256_si512(load32(rows.row(r))), load32(rows.row(r + 4)), 1);
    high[r] =
        _mm512_inserti64x4(_mm512_castsi256_si512(load32(rows.row(r + 8))), load32(rows.row(r + 12)), 1);
  }
  transpose_lanes(low);
  transpose_lanes(high);
  for (int t = 0; t < 4; ++t) {
    out[t] = _mm512_shuffle_i32x4(low[t], high[t], 0x88);
    out[t + 4] = _mm512_shuffle_i32x4(low[t], high[t], 0xDD);
  }
}

HWY_INLINE __m512 load_f16_of_rows(const RowGroup& rows) {
  const auto half = [&](int r) HWY_ATTR {
    int16_t bits;
    std::memcpy(&bits, rows.row(r), sizeof bits);
    return bits;
  };
  // Inserted in registers: a vector read back from 16 narrow stores would wait for all of them.
  return _mm512_cvtph_ps(_mm256_setr_epi16(half(0), half(1), half(2), half(3), half(4), half(5), half(6),
      half(7), half(8), half(9), half(10), half(11), half(12), half(13), half(14), half(15)));
}

HWY_INLINE void store_levels(uint8_t* to, int q, __m512i levels) { _mm512_store_si512(to + q * 64, levels); }

HWY_INLINE void pack_q8_0(const RowGroup& rows, PackedBlock to) {
  __m512i q[8];
  load_32_bytes(rows.at(2), q);
  for (int t = 0; t < 8; ++t) store_levels(to.levels, t, _mm512_xor_si512(q[t], _mm512_set1_epi8(-128)));
  _mm512_store_ps(to.scales, load_f16_of_rows(rows));
}

HWY_INLINE void pack_q4_0(const RowGroup& rows, PackedBlock to) {
  const __m512i mask = _mm512_set1_epi8(15);
  __m512i q[4];
  load_16_bytes(rows.at(2), q);
  for (int t = 0; t < 4; ++t) {
    store_levels(to.levels, t, _mm512_and_si512(q[t], mask));
    store_levels(to.levels, t + 4, _mm512_and_si512(_mm512_srli_epi16(q[t], 4), mask));
  }
  _mm512_store_ps(to.scales, load_f16_of_rows(rows));
}

HWY_INLINE __m512 byte_times(__m512i bytes, int index, __m512 factor) {
  const __m512i byte =
      _mm512_and_si512(_mm512_srl_epi32(bytes, _mm_cvtsi32_si128(8 * index)), _mm512_set1_epi32(255));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(byte), factor);
}

// The eight scales and minima of a super-block (bit layout: blocks.h), for 16 rows at once. Sub-block s goes
// to `to` moved by s * stride floats.
HWY_INLINE void pack_k_scales(const RowGroup& rows, PackedBlock to, int64_t stride) {
  __m512i head[4];  // d and dmin; bytes 0..3, 4..7 and 8..11 of the scales
  load_16_bytes(rows, head);
  const __m512 d = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(head[0]));
  const __m512 dmin = _mm512_cvtph_ps(_mm512_cvtepi32_epi16(_mm512_srli_epi32(head[0], 16)));
  const __m512i six = _mm512_set1_epi8(63), four = _mm512_set1_epi8(15), upper = _mm512_set1_epi8(48);
  const auto above = [&](__m512i v) HWY_ATTR { return _mm512_and_si512(_mm512_srli_epi32(v, 2), upper); };
  const __m512i scales[2] = {
      _mm512_and_si512(head[1], six), _mm512_or_si512(_mm512_and_si512(head[3], four), above(head[1]))};
  const __m512i mins[2] = {_mm512_and_si512(head[2], six),
      _mm512_or_si512(_mm512_and_si512(_mm512_srli_epi32(head[3], 4), four), above(head[2]))};
  for (int s = 0; s < 8; ++s) {
    _mm512_store_ps(to.scales + s * stride, byte_times(scales[s / 4], s % 4, d));
    _mm512_store_ps(to.mins + s * stride, byte_times(mins[s / 4], s % 4, dmin));
  }
}

// A whole super-block; 32-column block s goes to `to` moved by s blocks of `groups` groups.
HWY_INLINE void pack_q4_k(const RowGroup& rows, PackedBlock to, int64_t groups) {
  const __m512i mask = _mm512_set1_epi8(15);
  pack_k_scales(rows, to, groups * kGroupRows);
  for (int pair = 0; pair < 4; ++pair) {
    __m512i q[8];
    load_32_bytes(rows.at(16 + pair * 32), q);
    uint8_t* even = to.levels + 2 * pair * groups * kGroupBytes;
    for (int t = 0; t < 8; ++t) {
      store_levels(even, t, _mm512_and_si512(q[t], mask));
      store_levels(even + groups * kGroupBytes, t, _mm512_and_si512(_mm512_srli_epi16(q[t], 4), mask));
    }
  }
}

// `blocks` stored blocks of each row; a 32-column block takes `groups` groups of the panel. As many bytes of
// `ahead`, if any, are fetched into L2 in the order of their addresses: 2.5 times the bandwidth (NOTES.md).
template <class Block>
HWY_NOINLINE void pack_group(
    RowGroup rows, int64_t blocks, PackedBlock to, int64_t groups, const uint8_t* ahead) {
  constexpr int64_t kBytes = kGroupRows * sizeof(Block);
  constexpr int64_t kColumnBlocks = sizeof(Block) > 100 ? 8 : 1;
  for (int64_t b = 0; b < blocks; ++b) {
    if constexpr (std::is_same_v<Block, BlockQ8_0>)
      pack_q8_0(rows, to);
    else if constexpr (std::is_same_v<Block, BlockQ4_0>)
      pack_q4_0(rows, to);
    else
      pack_q4_k(rows, to, groups);
    if (ahead) {
      for (int64_t line = 0; line < kBytes; line += 64) __builtin_prefetch(ahead + line, 0, 2);
      ahead += kBytes;
    }
    rows = rows.at(sizeof(Block));
    to.levels += kColumnBlocks * groups * kGroupBytes;
    to.scales += kColumnBlocks * groups * kGroupRows;
    to.mins += kColumnBlocks * groups * kGroupRows;
  }
}

}  // namespace
}  // namespace cheetah::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // AVX-512 VNNI
#endif  // per-target include guard
