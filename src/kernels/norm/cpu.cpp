// SPDX-License-Identifier: MIT
// bytes  8*rows*cols (f32 in and out; the weight stays in cache)   flops  about 4*rows*cols
// bound  memory for large inputs; a decode step's single row stays in L1 and costs a microsecond
#include "kernels/norm/norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/rows_at_once.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/norm/cpu.cpp"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using One = hn::CappedTag<float, 1>;

// sum((x - center)^2), or of x itself where kSquared is false. Four accumulators hide the adder's latency.
template <bool kSquared>
float sum_of(const float* x, int64_t cols, float center) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V c = hn::Set(d, center);
  const auto add = [&](V sum, const float* at) HWY_ATTR {
    const V v = hn::Sub(hn::LoadU(d, at), c);
    return kSquared ? hn::MulAdd(v, v, sum) : hn::Add(sum, v);
  };
  V s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= cols; i += 4 * lanes) {
    s0 = add(s0, x + i);
    s1 = add(s1, x + i + lanes);
    s2 = add(s2, x + i + 2 * lanes);
    s3 = add(s3, x + i + 3 * lanes);
  }
  for (; i + lanes <= cols; i += lanes) s0 = add(s0, x + i);
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < cols; ++i) sum += kSquared ? (x[i] - center) * (x[i] - center) : x[i] - center;
  return sum;
}

struct RowScale {
  float center;
  float inverse;
};

// y = (x - center) * inverse * (weight + offset) + bias for one vector's worth of columns.
template <class Tag>
HWY_INLINE void scale_at(Tag d, const NormArgs& args, const float* x, float* y, int64_t col, RowScale row) {
  auto v = hn::Mul(hn::Sub(hn::LoadU(d, x + col), hn::Set(d, row.center)), hn::Set(d, row.inverse));
  if (args.weight) v = hn::Mul(v, hn::Add(hn::LoadU(d, args.weight + col), hn::Set(d, args.weight_offset)));
  if (args.bias) v = hn::Add(v, hn::LoadU(d, args.bias + col));
  hn::StoreU(v, d, y + col);
}

void scale_row(const NormArgs& args, const float* x, float* y, RowScale row) {
  const D d;
  const One one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t col = 0;
  for (; col + lanes <= args.cols; col += lanes) scale_at(d, args, x, y, col, row);
  for (; col < args.cols; ++col) scale_at(one, args, x, y, col, row);
}

float inverse_root(float squares, const NormArgs& args) {
  return static_cast<float>(
      1.0 / std::sqrt(static_cast<double>(squares) / static_cast<double>(args.cols) + args.eps));
}

// Calls on(x, y) for parts [begin, end) of all parts of all rows.
template <class On>
HWY_INLINE void for_each_part(const NormArgs& args, int64_t begin, int64_t end, On&& on) {
  int64_t row = begin / args.parts, part = begin % args.parts;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t inside = part * args.part_stride;
    on(args.x + row * args.x_stride + inside, args.y + row * args.y_stride + inside);
    if (++part < args.parts) continue;
    part = 0;
    ++row;
  }
}

void rms_rows(const NormArgs& args, int64_t begin, int64_t end) {
  for_each_part(args, begin, end, [&](const float* x, float* y) HWY_ATTR {
    const float squares = sum_of<true>(x, args.cols, 0.f);
    scale_row(args, x, y, {.center = 0.f, .inverse = inverse_root(squares, args)});
  });
}

void layer_rows(const NormArgs& args, int64_t begin, int64_t end) {
  for_each_part(args, begin, end, [&](const float* x, float* y) HWY_ATTR {
    const float mean = sum_of<false>(x, args.cols, 0.f) / static_cast<float>(args.cols);
    const float squares = sum_of<true>(x, args.cols, mean);
    scale_row(args, x, y, {.center = mean, .inverse = inverse_root(squares, args)});
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace cheetah
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cheetah {
namespace {

HWY_EXPORT(rms_rows);
HWY_EXPORT(layer_rows);

}  // namespace

void rms_norm(const NormArgs& args, const CpuContext& context) {
  NormArgs plain = args;
  plain.bias = nullptr;
  const auto rows = HWY_DYNAMIC_DISPATCH(rms_rows);
  const int64_t count = args.rows * args.parts;
  context.pool.parallel_for(count, rows_at_once(context, count, args.cols),
      [&](int64_t begin, int64_t end, int) { rows(plain, begin, end); });
}

void layer_norm(const NormArgs& args, const CpuContext& context) {
  const auto rows = HWY_DYNAMIC_DISPATCH(layer_rows);
  const int64_t count = args.rows * args.parts;
  context.pool.parallel_for(count, rows_at_once(context, count, args.cols),
      [&](int64_t begin, int64_t end, int) { rows(args, begin, end); });
}

}  // namespace cheetah
#endif  // HWY_ONCE
