// SPDX-License-Identifier: MIT
// One token's cosines and sines serve all its heads. They come from a double-precision vector sine, so that
// they equal the rounded exact values at every position; 8 at a time cost less than the rotation itself.
#include "kernels/rope/rope.h"

#include <algorithm>
#include <vector>

#include "kernels/rows_at_once.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rope/cpu.cpp"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// sin and cos of |x| < 2^25 to well below float rounding: reduction by pi/2 in three parts (Cephes' split: n
// times a part is exact), then Taylor series whose next terms are below 1e-13 for |r| <= pi/4.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void sin_cos(D d, V x, V& sine, V& cosine) {
  const V n = hn::Round(hn::Mul(x, hn::Set(d, 0.63661977236758134308)));
  V r = hn::NegMulAdd(n, hn::Set(d, 1.57079625129699707031), x);
  r = hn::NegMulAdd(n, hn::Set(d, 7.54978941586159635335e-8), r);
  r = hn::NegMulAdd(n, hn::Set(d, 5.39030285815811905290e-15), r);
  const V y = hn::Mul(r, r);
  V s = hn::Set(d, 1.0 / 6227020800);
  s = hn::MulAdd(s, y, hn::Set(d, -1.0 / 39916800));
  s = hn::MulAdd(s, y, hn::Set(d, 1.0 / 362880));
  s = hn::MulAdd(s, y, hn::Set(d, -1.0 / 5040));
  s = hn::MulAdd(s, y, hn::Set(d, 1.0 / 120));
  s = hn::MulAdd(s, y, hn::Set(d, -1.0 / 6));
  s = hn::MulAdd(hn::Mul(s, y), r, r);
  V c = hn::Set(d, -1.0 / 87178291200);
  c = hn::MulAdd(c, y, hn::Set(d, 1.0 / 479001600));
  c = hn::MulAdd(c, y, hn::Set(d, -1.0 / 3628800));
  c = hn::MulAdd(c, y, hn::Set(d, 1.0 / 40320));
  c = hn::MulAdd(c, y, hn::Set(d, -1.0 / 720));
  c = hn::MulAdd(c, y, hn::Set(d, 1.0 / 24));
  c = hn::MulAdd(c, y, hn::Set(d, -0.5));
  c = hn::MulAdd(c, y, hn::Set(d, 1.0));
  // The quadrant, 0 to 3, kept in floating point: not every target converts doubles to integers.
  const V quadrant = hn::NegMulAdd(hn::Floor(hn::Mul(n, hn::Set(d, 0.25))), hn::Set(d, 4.0), n);
  const auto is_1 = hn::Eq(quadrant, hn::Set(d, 1.0)), is_2 = hn::Eq(quadrant, hn::Set(d, 2.0));
  const auto is_3 = hn::Eq(quadrant, hn::Set(d, 3.0));
  const auto swapped = hn::Or(is_1, is_3);
  const V sin_part = hn::IfThenElse(swapped, c, s), cos_part = hn::IfThenElse(swapped, s, c);
  sine = hn::IfThenElse(hn::Or(is_2, is_3), hn::Neg(sin_part), sin_part);
  cosine = hn::IfThenElse(hn::Or(is_1, is_2), hn::Neg(cos_part), cos_part);
}

template <class D32>
HWY_INLINE void angles_at(
    D32 d32, const RopeArgs& args, float position, int64_t i, float* cosines, float* sines) {
  const hn::Rebind<double, D32> d;
  const auto angle = hn::Mul(hn::Set(d32, position), hn::LoadU(d32, args.inv_freq.data() + i));
  auto sine = hn::Zero(d), cosine = hn::Zero(d);
  sin_cos(d, hn::PromoteTo(d, angle), sine, cosine);
  const auto magnitude = hn::Set(d32, args.magnitude);
  hn::StoreU(hn::Mul(hn::DemoteTo(d32, cosine), magnitude), d32, cosines + i);
  hn::StoreU(hn::Mul(hn::DemoteTo(d32, sine), magnitude), d32, sines + i);
}

void fill_angles(const RopeArgs& args, float position, float* cosines, float* sines) {
  const hn::ScalableTag<double> d64;
  const hn::Rebind<float, decltype(d64)> d;
  const auto half = static_cast<int64_t>(args.inv_freq.size()), lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= half; i += lanes) angles_at(d, args, position, i, cosines, sines);
  for (; i < half; ++i) angles_at(hn::CappedTag<float, 1>(), args, position, i, cosines, sines);
}

template <RopeLayout kLayout, class D>
HWY_INLINE void rotate_at(D d, float* x, int64_t half, int64_t i, const float* cosines, const float* sines) {
  const auto c = hn::LoadU(d, cosines + i), s = hn::LoadU(d, sines + i);
  auto a = hn::Zero(d), b = a;
  if constexpr (kLayout == RopeLayout::kHalves) {
    a = hn::LoadU(d, x + i);
    b = hn::LoadU(d, x + i + half);
  } else {
    hn::LoadInterleaved2(d, x + 2 * i, a, b);
  }
  const auto first = hn::NegMulAdd(b, s, hn::Mul(a, c)), second = hn::MulAdd(a, s, hn::Mul(b, c));
  if constexpr (kLayout == RopeLayout::kHalves) {
    hn::StoreU(first, d, x + i);
    hn::StoreU(second, d, x + i + half);
  } else {
    hn::StoreInterleaved2(first, second, d, x + 2 * i);
  }
}

template <RopeLayout kLayout>
void rotate_heads(const RopeArgs& args, float* token, const float* cosines, const float* sines) {
  const hn::ScalableTag<float> d;
  const auto half = static_cast<int64_t>(args.inv_freq.size()), lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t head = 0; head < args.heads; ++head) {
    float* x = token + head * args.head_stride;
    int64_t i = 0;
    for (; i + lanes <= half; i += lanes) rotate_at<kLayout>(d, x, half, i, cosines, sines);
    for (; i + 8 <= half && lanes > 8; i += 8)
      rotate_at<kLayout>(hn::CappedTag<float, 8>(), x, half, i, cosines, sines);
    for (; i < half; ++i) rotate_at<kLayout>(hn::CappedTag<float, 1>(), x, half, i, cosines, sines);
  }
}

// scratch: 2 * half floats.
void rotate_tokens(const RopeArgs& args, int64_t begin, int64_t end, float* scratch) {
  float* sines = scratch + args.inv_freq.size();
  for (int64_t token = begin; token < end; ++token) {
    fill_angles(args, static_cast<float>(args.positions[static_cast<size_t>(token)]), scratch, sines);
    float* x = args.x + token * args.token_stride;
    if (args.layout == RopeLayout::kHalves)
      rotate_heads<RopeLayout::kHalves>(args, x, scratch, sines);
    else
      rotate_heads<RopeLayout::kInterleaved>(args, x, scratch, sines);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace cheetah
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cheetah {

HWY_EXPORT(rotate_tokens);

void rope(const RopeArgs& args, const CpuContext& context) {
  const auto half = static_cast<int64_t>(args.inv_freq.size()),
             tokens = static_cast<int64_t>(args.positions.size());
  const int64_t grain = rows_at_once(context, tokens, 2 * half * args.heads);
  const auto rotate = HWY_DYNAMIC_DISPATCH(rotate_tokens);
  context.pool.parallel_for(tokens, grain, [&](int64_t begin, int64_t end, int) {
    thread_local std::vector<float> scratch;
    scratch.resize(static_cast<size_t>(2 * half));
    rotate(args, begin, end, scratch.data());
  });
}

}  // namespace cheetah
#endif  // HWY_ONCE
