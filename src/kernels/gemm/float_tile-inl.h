// SPDX-License-Identifier: MIT
// Dot-product tiles in F32, once per instruction set. Included by foreach_target sources only.
//
// out[i, j] = sum over k of x[i, k] * w[j, k]. Lane l of an output's one accumulator takes every k with
// k mod lanes = l, in order, and the lanes are added in a fixed tree. So an output's bits depend on its own
// two rows alone, whatever the tile's shape: that is what keeps a token's result the same at every batch
// size.
#if defined(CHEETAH_KERNELS_GEMM_FLOAT_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CHEETAH_KERNELS_GEMM_FLOAT_TILE_INL_H_
#undef CHEETAH_KERNELS_GEMM_FLOAT_TILE_INL_H_
#else
#define CHEETAH_KERNELS_GEMM_FLOAT_TILE_INL_H_
#endif

#include <cstring>
#include <utility>

#include "kernels/quant/widen-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah::HWY_NAMESPACE {
namespace {

// Rows of W per tile for kM rows of x: as many accumulators as registers allow, with one register a row of W
// and one for x left over. For one row of x memory sets the pace: 2 and 8 rows measure the same.
#if HWY_TARGET <= HWY_AVX3
template <int kM>
inline constexpr int kTileRows = kM == 8   ? 3
                                 : kM == 4 ? 6
                                 : kM == 2 ? 4
                                           : 2;
#else
template <int kM>
inline constexpr int kTileRows = kM == 8   ? 1
                                 : kM == 4 ? 3
                                 : kM == 2 ? 4
                                           : 2;
#endif
inline constexpr int kMaxTileRows = 6;

// A lambda whose variables stay in registers.
#define CHEETAH_INLINED HWY_ATTR __attribute__((always_inline))

// Calls body(0), body(1), … with indices the compiler knows from the start: arrays indexed by them live in
// registers. Loops are unrolled too late for that, and the accumulators of a tile went through memory.
template <class Body, int... kIndex>
HWY_INLINE void unroll(std::integer_sequence<int, kIndex...>, const Body& body) {
  (body(std::integral_constant<int, kIndex>()), ...);
}
template <int kCount, class Body>
HWY_INLINE void unroll(const Body& body) {
  unroll(std::make_integer_sequence<int, kCount>(), body);
}

// Keeps a loaded vector in a register. GCC would read it from memory again for every use, and three reads an
// element leave the multipliers waiting for the load ports.
HWY_INLINE FloatVector held(FloatVector v) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3 && defined(__GNUC__)
  __asm__("" : "+v"(v.raw));
#endif
  return v;
}

#if HWY_TARGET == HWY_SCALAR
template <int kCount>
HWY_INLINE void sum_lanes(const FloatVector (&vectors)[kCount], float* sums) {
  for (int i = 0; i < kCount; ++i) sums[i] = hn::GetLane(vectors[i]);
}
#else
using QuadTag = hn::FixedTag<float, 4>;

// Halves added until four lanes are left.
template <class D>
HWY_INLINE hn::Vec<QuadTag> fold_to_quad(D d, hn::Vec<D> v) {
  if constexpr (hn::MaxLanes(d) == 4) {
    return v;
  } else {
    const hn::Half<D> half;
    return fold_to_quad(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  }
}

// Four vectors at a time: after the folds, a 4 x 4 transposition that adds on its way.
template <int kCount>
HWY_INLINE void sum_lanes(const FloatVector (&vectors)[kCount], float* sums) {
  const FloatTag d;
  const QuadTag quad;
  unroll<(kCount + 3) / 4>([&](auto group) CHEETAH_INLINED {
    constexpr int kFirst = 4 * group;
    const auto fold = [&](auto index) CHEETAH_INLINED {
      if constexpr (index < kCount)
        return fold_to_quad(d, vectors[index]);
      else
        return hn::Zero(quad);
    };
    const auto a = fold(std::integral_constant<int, kFirst>());
    const auto b = fold(std::integral_constant<int, kFirst + 1>());
    const auto c = fold(std::integral_constant<int, kFirst + 2>());
    const auto e = fold(std::integral_constant<int, kFirst + 3>());
    const auto ab = hn::Add(hn::InterleaveLower(quad, a, b), hn::InterleaveUpper(quad, a, b));
    const auto ce = hn::Add(hn::InterleaveLower(quad, c, e), hn::InterleaveUpper(quad, c, e));
    const auto sum = hn::Add(hn::ConcatLowerLower(quad, ce, ab), hn::ConcatUpperUpper(quad, ce, ab));
    hn::StoreU(sum, quad, sums + kFirst);
  });
}
#endif

// Bytes between the weights being multiplied and those being fetched (NOTES.md).
inline constexpr int64_t kPrefetchBytes = 8192;

// sums[i * kTileRows<kM> + j] = x row i . w row j over k elements, a whole number of vectors. x rows are
// x_stride apart; sums has room for a multiple of four. `ahead`, if any, is fetched into L2 line by line, as
// much of it as W's rows hold.
template <class Widen, int kM>
HWY_NOINLINE void dot_tile(const float* HWY_RESTRICT x, int64_t x_stride, const std::byte* const* rows,
    int64_t k, const std::byte* ahead, float* HWY_RESTRICT sums) {
  constexpr int kN = kTileRows<kM>;
  constexpr int64_t kSpan = HWY_MAX(int64_t{1}, 64 / (kLanes * Widen::kBytes)) * kLanes;  // a cache line of W
  const FloatTag d;
  FloatVector acc[kM * kN];
  const std::byte* w[kN];
  unroll<kN>([&](auto j) CHEETAH_INLINED { w[j] = rows[j]; });
  unroll<kM * kN>([&](auto i) CHEETAH_INLINED { acc[i] = hn::Zero(d); });
  const auto step = [&](int64_t at) CHEETAH_INLINED {
    FloatVector weights[kN];
    unroll<kN>([&](auto j) CHEETAH_INLINED { weights[j] = Widen::load(w[j] + at * Widen::kBytes); });
    unroll<kM>([&](auto i) CHEETAH_INLINED {
      const auto value = held(hn::LoadU(d, x + i * x_stride + at));
      unroll<kN>(
          [&](auto j) CHEETAH_INLINED { acc[i * kN + j] = hn::MulAdd(value, weights[j], acc[i * kN + j]); });
    });
  };
  int64_t at = 0;
  if (ahead) {
    for (; at + kSpan <= k; at += kSpan, ahead += kN * 64) {
      for (int j = 0; j < kN; ++j) __builtin_prefetch(ahead + j * 64, 0, 2);
      for (int64_t part = 0; part < kSpan; part += kLanes) step(at + part);
    }
  }
  for (; at < k; at += kLanes) step(at);
  sum_lanes(acc, sums);
}

}  // namespace
}  // namespace cheetah::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#undef CHEETAH_INLINED
#endif  // per-target include guard
