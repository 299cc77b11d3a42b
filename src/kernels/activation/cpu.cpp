// SPDX-License-Identifier: MIT
// Element-wise; bound by memory for prompts, by the exponential's some 20 instructions a vector for a decode
// step's single row. Every element goes through the same instructions wherever it stands, so results do not
// depend on how the work is split.
#include "kernels/activation/activation.h"

#include <algorithm>

#include "kernels/rows_at_once.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation/cpu.cpp"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "hwy/highway.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using One = hn::CappedTag<float, 1>;

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_tanh(D d, V x) {  // (1 + tanh(u)) / 2 is sigmoid(2u), which does not cancel for negative x
  constexpr float kTwoSqrt2OverPi = 1.5957691216f;
  const V cubic = hn::Mul(hn::Mul(x, x), x);
  const V u2 = hn::Mul(hn::MulAdd(cubic, hn::Set(d, 0.044715f), x), hn::Set(d, kTwoSqrt2OverPi));
  return hn::Mul(x, sigmoid(d, u2));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_erf(D d, V x) {  // x/2 erfc(-x/sqrt(2))
  const V tail = erfc_of_nonnegative(d, hn::Mul(hn::Abs(x), hn::Set(d, 0.70710678119f)));
  const V both = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(hn::Set(d, 2.f), tail));
  return hn::Mul(hn::Mul(x, hn::Set(d, 0.5f)), both);
}

template <Activation kKind, class D, class V = hn::Vec<D>>
HWY_INLINE V apply(D d, V x) {
  if constexpr (kKind == Activation::kSilu) return hn::Mul(x, sigmoid(d, x));
  if constexpr (kKind == Activation::kGeluTanh) return gelu_tanh(d, x);
  if constexpr (kKind == Activation::kGeluErf) return gelu_erf(d, x);
  if constexpr (kKind == Activation::kQuickGelu)
    return hn::Mul(x, sigmoid(d, hn::Mul(x, hn::Set(d, 1.702f))));
  if constexpr (kKind == Activation::kRelu) return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);
}

// body(tag, i) for every vector of [0, count), the last few one by one.
template <class Body>
HWY_INLINE void for_each_vector(int64_t count, const Body& body) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(d, i);
  for (; i < count; ++i) body(One(), i);
}

// The run-time choice made once per call, outside the loops.
template <class Use>
HWY_INLINE void with_kind(Activation kind, const Use& use) {
  switch (kind) {
    case Activation::kSilu:
      return use.template operator()<Activation::kSilu>();
    case Activation::kGeluTanh:
      return use.template operator()<Activation::kGeluTanh>();
    case Activation::kGeluErf:
      return use.template operator()<Activation::kGeluErf>();
    case Activation::kQuickGelu:
      return use.template operator()<Activation::kQuickGelu>();
    case Activation::kRelu:
      return use.template operator()<Activation::kRelu>();
  }
}

void activate_piece(Activation kind, float* x, int64_t count) {
  with_kind(kind, [&]<Activation kKind>() HWY_ATTR {
    for_each_vector(count,
        [&](auto d, int64_t i) HWY_ATTR { hn::StoreU(apply<kKind>(d, hn::LoadU(d, x + i)), d, x + i); });
  });
}

void gated_piece(Activation kind, const float* gate, const float* up, float* y, int64_t count) {
  with_kind(kind, [&]<Activation kKind>() HWY_ATTR {
    for_each_vector(count, [&](auto d, int64_t i) HWY_ATTR {
      hn::StoreU(hn::Mul(apply<kKind>(d, hn::LoadU(d, gate + i)), hn::LoadU(d, up + i)), d, y + i);
    });
  });
}

void clamped_piece(
    const ClampedSwigluArgs& args, const float* gate, const float* up, float* y, int64_t count) {
  for_each_vector(count, [&](auto d, int64_t i) HWY_ATTR {
    const auto high = hn::Set(d, args.limit), low = hn::Set(d, -args.limit);
    const auto g = hn::Min(high, hn::LoadU(d, gate + i));
    const auto u = hn::Max(low, hn::Min(high, hn::LoadU(d, up + i)));
    const auto weighted = hn::Mul(g, sigmoid(d, hn::Mul(g, hn::Set(d, args.alpha))));
    hn::StoreU(hn::Mul(hn::Add(u, hn::Set(d, 1.f)), weighted), d, y + i);
  });
}

void add_piece(const float* x, float scale, float* y, int64_t count) {
  for_each_vector(count, [&](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), hn::Set(d, scale), hn::LoadU(d, y + i)), d, y + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace cheetah
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cheetah {
namespace {

HWY_EXPORT(activate_piece);
HWY_EXPORT(gated_piece);
HWY_EXPORT(clamped_piece);
HWY_EXPORT(add_piece);

constexpr int64_t kPiece =
    8192;  // numbers: two to three microseconds of work, more than waking a worker costs

// work(row, first column, columns) over rows cut into pieces; short rows go several to a worker.
template <class Work>
void over_pieces(const GatedArgs& args, const CpuContext& context, const Work& work) {
  if (args.rows <= 0 || args.cols <= 0) return;
  const int64_t pieces = (args.cols + kPiece - 1) / kPiece;
  const int64_t grain = std::max<int64_t>(1, kPiece / args.cols);
  context.pool.parallel_for(args.rows * pieces, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t col = i % pieces * kPiece;
      work(i / pieces, col, std::min(kPiece, args.cols - col));
    }
  });
}

}  // namespace

void activate(Activation kind, float* x, int64_t count, const CpuContext& context) {
  const auto piece = HWY_DYNAMIC_DISPATCH(activate_piece);
  context.pool.parallel_for(
      count, kPiece, [&](int64_t begin, int64_t end, int) { piece(kind, x + begin, end - begin); });
}

void gated_activation(const GatedArgs& args, const CpuContext& context) {
  const auto piece = HWY_DYNAMIC_DISPATCH(gated_piece);
  over_pieces(args, context, [&](int64_t row, int64_t col, int64_t count) {
    piece(args.kind, args.gate + row * args.gate_stride + col, args.up + row * args.up_stride + col,
        args.y + row * args.y_stride + col, count);
  });
}

void clamped_swiglu(const ClampedSwigluArgs& args, const CpuContext& context) {
  const auto piece = HWY_DYNAMIC_DISPATCH(clamped_piece);
  const GatedArgs& rows = args.rows;
  over_pieces(rows, context, [&](int64_t row, int64_t col, int64_t count) {
    piece(args, rows.gate + row * rows.gate_stride + col, rows.up + row * rows.up_stride + col,
        rows.y + row * rows.y_stride + col, count);
  });
}

void clip(float* x, float limit, int64_t count, const CpuContext& context) {
  context.pool.parallel_for(count, rows_at_once(context, count, 1), [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) x[i] = std::clamp(x[i], -limit, limit);
  });
}

void add_scaled(const float* x, float scale, float* y, int64_t count, const CpuContext& context) {
  const auto piece = HWY_DYNAMIC_DISPATCH(add_piece);
  context.pool.parallel_for(count, rows_at_once(context, count, 1),
      [&](int64_t begin, int64_t end, int) { piece(x + begin, scale, y + begin, end - begin); });
}

}  // namespace cheetah
#endif  // HWY_ONCE
