// SPDX-License-Identifier: MIT
// A polynomial of degree 8 on data in the L1, with vectors of 1, 4, 8 and 16 floats.
#include "lab/array_trial.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lab/experiments/cpu_cores/simd_width.cpp"
#include <hwy/foreach_target.h>
// After foreach_target.h, as Highway asks.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace cheetah::lab {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Horner's rule in vectors of at most kMost floats; four at a time hide the multiply-add's latency.
template <size_t kMost>
void evaluate(const float* x, float* y, int64_t n) {
  const hn::CappedTag<float, kMost> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i + 4 * lanes <= n; i += 4 * lanes) {
    const auto x0 = hn::LoadU(d, x + i), x1 = hn::LoadU(d, x + i + lanes),
               x2 = hn::LoadU(d, x + i + 2 * lanes), x3 = hn::LoadU(d, x + i + 3 * lanes);
    auto y0 = hn::Set(d, 0.125f), y1 = y0, y2 = y0, y3 = y0;
    for (int degree = 7; degree >= 0; --degree) {
      const auto c = hn::Set(d, 1.f / static_cast<float>(degree + 1));
      y0 = hn::MulAdd(y0, x0, c), y1 = hn::MulAdd(y1, x1, c);
      y2 = hn::MulAdd(y2, x2, c), y3 = hn::MulAdd(y3, x3, c);
    }
    hn::StoreU(y0, d, y + i), hn::StoreU(y1, d, y + i + lanes);
    hn::StoreU(y2, d, y + i + 2 * lanes), hn::StoreU(y3, d, y + i + 3 * lanes);
  }
}

void evaluate_1(const float* x, float* y, int64_t n) { evaluate<1>(x, y, n); }
void evaluate_4(const float* x, float* y, int64_t n) { evaluate<4>(x, y, n); }
void evaluate_8(const float* x, float* y, int64_t n) { evaluate<8>(x, y, n); }
void evaluate_16(const float* x, float* y, int64_t n) { evaluate<16>(x, y, n); }
int64_t most_lanes() { return static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>())); }

}  // namespace HWY_NAMESPACE
}  // namespace cheetah::lab
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace cheetah::lab {
namespace {

HWY_EXPORT(evaluate_1);
HWY_EXPORT(evaluate_4);
HWY_EXPORT(evaluate_8);
HWY_EXPORT(evaluate_16);
HWY_EXPORT(most_lanes);

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);  // a multiple of 64
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n);
  const auto y = trial->output<float>("y", n);
  trial->set_cost({.flops = 16.0 * static_cast<double>(n),
      .bytes = 8.0 * static_cast<double>(n),
      .roof = Roof::kCoreFp32});
  trial->reference([=](const HostArrays& host) {
    for (size_t i = 0; i < host[x].size(); ++i) {
      double sum = 0.125;
      for (int degree = 7; degree >= 0; --degree) sum = sum * host[x][i] + 1.0 / (degree + 1);
      host[y][i] = static_cast<float>(sum);
    }
  });
  const int64_t lanes = HWY_DYNAMIC_DISPATCH(most_lanes)();
  trial->variant("1 float", [=](const Launch& at) { HWY_DYNAMIC_DISPATCH(evaluate_1)(at[x], at[y], n); });
  const auto add = [&](std::string_view name, int64_t width, void (*run)(const float*, float*, int64_t)) {
    if (width > lanes)
      trial->refuse(name, "this processor's vectors are shorter");
    else
      trial->variant(name, [=](const Launch& at) { run(at[x], at[y], n); });
  };
  add("4 floats", 4, HWY_DYNAMIC_DISPATCH(evaluate_4));
  add("8 floats", 8, HWY_DYNAMIC_DISPATCH(evaluate_8));
  add("16 floats", 16, HWY_DYNAMIC_DISPATCH(evaluate_16));
  return trial;
}

const Registered kSimdWidth({
    .id = "cpu/simd-width",
    .title = "Vector width",
    .question = "How much of a vector unit does a loop use at each width?",
    .mechanism = "An instruction does as many operations as its vector has lanes, at the same rate of issue: "
                 "twice the "
                 "width, twice the speed, until the clock drops or the unit works in two halves.",
    .claim = {.text = "Wider accesses and operations do more with each instruction issued."},
    .domain = Domain::kCpu,
    .rotation = Rotation::kHot,
    .variants = {{"1 float", "scalar multiply-adds"}, {"4 floats", "128-bit vectors"},
        {"8 floats", "256-bit vectors"}, {"16 floats", "512-bit vectors"}},
    .sizes = sizes_of({1 << 11}),
    .tolerance = {.relative = 1e-5, .absolute = 1e-5},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
#endif
