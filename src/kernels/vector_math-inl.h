// SPDX-License-Identifier: MIT
// Elementary functions on Highway vectors of float. Included once per target, after hwy/highway.h.
// Polynomials are Chebyshev fits made for these intervals; vector_math_test.cpp measures the stated errors.
#if defined(CHEETAH_KERNELS_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef CHEETAH_KERNELS_VECTOR_MATH_INL_H_
#undef CHEETAH_KERNELS_VECTOR_MATH_INL_H_
#else
#define CHEETAH_KERNELS_VECTOR_MATH_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// exp(r) for |r| <= ln(2)/2: 1 + r + r^2 p(r), relative error 8e-9 before rounding.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_reduced(D d, V r) {
  V p = hn::Set(d, 1.39261835877e-3f);
  p = hn::MulAdd(p, r, hn::Set(d, 8.36317905272e-3f));
  p = hn::MulAdd(p, r, hn::Set(d, 4.16665546172e-2f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.66665769897e-1f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.5f));
  return hn::Add(hn::MulAdd(p, hn::Mul(r, r), r), hn::Set(d, 1.f));
}

// x = n ln(2) + r: sets n and returns r. ln(2) is split so that n times its high part is exact.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V reduce_by_ln2(D d, V x, V& n) {
  n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504089f)));
  const V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  return hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
}

// Relative error below 2e-7; subnormal results and overflow to infinity as they should be; NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_any(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V low = hn::Set(d, -104.f), high = hn::Set(d, 89.f);
  V clamped = hn::IfThenElse(hn::Lt(x, low), low, x);
  clamped = hn::IfThenElse(hn::Gt(x, high), high, clamped);
  V n;
  const V p = exp_reduced(d, reduce_by_ln2(d, clamped, n));
  // 2^n in two factors, so that n = 128 and the subnormals need no special case.
  const auto whole = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(whole);
  const auto bias = hn::Set(di, 127);
  const V first = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(half, bias)));
  const V second = hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::Sub(whole, half), bias)));
  return hn::Mul(hn::Mul(p, first), second);
}

// exp(x) for x <= 0, as a softmax needs it: relative error below 2e-7, zero below -87 (1.6e-38). x may be
// -infinity, not NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_of_nonpositive(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V low = hn::Set(d, -87.f);
  V n;
  const V p = exp_reduced(d, reduce_by_ln2(d, hn::Max(x, low), n));
  const auto bits = hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::ConvertTo(di, n)));
  return hn::IfThenElseZero(hn::Ge(x, low), hn::BitCast(d, bits));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.f);
  return hn::Div(one, hn::Add(one, exp_any(d, hn::Neg(x))));
}

// Relative error below 4e-7: a polynomial near zero, where the exponential form cancels.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh_any(D d, V x) {
  const V one = hn::Set(d, 1.f), magnitude = hn::Abs(x), y = hn::Mul(x, x);
  V p = hn::Set(d, -6.09671416591e-3f);
  p = hn::MulAdd(p, y, hn::Set(d, 2.09971789991e-2f));
  p = hn::MulAdd(p, y, hn::Set(d, -5.38509095785e-2f));
  p = hn::MulAdd(p, y, hn::Set(d, 1.3332769737e-1f));
  p = hn::MulAdd(p, y, hn::Set(d, -3.33333289441e-1f));
  const V small = hn::MulAdd(hn::Mul(p, y), x, x);
  const V e = exp_any(d, hn::Add(magnitude, magnitude));
  const V large = hn::CopySign(hn::Sub(one, hn::Div(hn::Set(d, 2.f), hn::Add(e, one))), x);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.625f)), small, large);
}

// erfc(z) for z >= 0 as exp(-z^2) t R(t) with t = 1 / (1 + z/3). Relative error below 5e-7 + 1e-7 z^2, which
// is the rounding of z^2.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V erfc_of_nonnegative(D d, V z) {
  const V one = hn::Set(d, 1.f);
  const V t = hn::Div(one, hn::MulAdd(z, hn::Set(d, 1.f / 3), one));
  V p = hn::Set(d, 0.0570409653191f);
  p = hn::MulAdd(p, t, hn::Set(d, -0.299373093418f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.5528358778f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.464204354423f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.422891741831f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.0124823966187f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.195865578931f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.170607757264f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.188787591716f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.188030333214f));
  return hn::Mul(hn::Mul(p, t), exp_any(d, hn::Neg(hn::Mul(z, z))));
}

}  // namespace HWY_NAMESPACE
}  // namespace cheetah
HWY_AFTER_NAMESPACE();

#endif
