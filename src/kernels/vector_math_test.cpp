// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vector_math_test.cpp"
#include "hwy/foreach_target.h"
// after foreach_target.h
#include "hwy/highway.h"
#include "kernels/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace cheetah {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

enum Function { kExp, kExpNonpositive, kTanh, kErfc };

void evaluate(int function, float* x, int64_t count) {
  const hn::CappedTag<float, 16> d;
  for (int64_t i = 0; i < count; i += 16)
    for (size_t lane = 0; lane < 16; lane += hn::Lanes(d)) {
      float* at = x + i + lane;
      const auto v = hn::LoadU(d, at);
      if (function == kExp) hn::StoreU(exp_any(d, v), d, at);
      if (function == kExpNonpositive) hn::StoreU(exp_of_nonpositive(d, v), d, at);
      if (function == kTanh) hn::StoreU(tanh_any(d, v), d, at);
      if (function == kErfc) hn::StoreU(erfc_of_nonnegative(d, v), d, at);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace cheetah
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "kernels/every_target.h"

namespace cheetah {
namespace {

HWY_EXPORT(evaluate);

enum Function { kExp, kExpNonpositive, kTanh, kErfc };

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> evaluated(Function function, std::vector<float> x) {
  const size_t count = x.size();
  x.resize((count + 15) / 16 * 16, 0.f);
  HWY_DYNAMIC_DISPATCH(evaluate)(function, x.data(), static_cast<int64_t>(x.size()));
  x.resize(count);
  return x;
}

std::vector<float> sweep(double from, double to) {
  constexpr int kPoints = 100003;
  std::vector<float> x;
  for (int i = 0; i < kPoints; ++i) x.push_back(static_cast<float>(from + (to - from) * i / (kPoints - 1)));
  return x;
}

template <class Exact>
double worst_relative(Function function, const std::vector<float>& x, const Exact& exact) {
  const std::vector<float> y = evaluated(function, x);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double right = exact(static_cast<double>(x[i]));
    if (right == 0) continue;
    const double error = std::abs(y[i] - right) / std::abs(right);
    worst = error > worst || std::isnan(error) ? error : worst;
  }
  return worst;
}

TEST(VectorMath, ErrorsStayBelowWhatIsStated) {
  for_every_target([] {
    const auto exp = [](double v) { return std::exp(v); };
    const auto tanh = [](double v) { return std::tanh(v); };
    const auto erfc = [](double v) { return std::erfc(v); };
    EXPECT_LT(worst_relative(kExp, sweep(-87, 88.7), exp), 2e-7);
    EXPECT_LT(worst_relative(kExpNonpositive, sweep(-87, 0), exp), 2e-7);
    EXPECT_LT(worst_relative(kTanh, sweep(-12, 12), tanh), 4e-7);
    EXPECT_LT(worst_relative(kErfc, sweep(0, 1), erfc), 6e-7);
    EXPECT_LT(worst_relative(kErfc, sweep(1, 9), erfc), 5e-7 + 81e-7);
  });
}

TEST(VectorMath, EndsOfTheRangeAreRight) {
  for_every_target([] {
    const std::vector<float> ends = evaluated(
        kExp, {0.f, -kInfinity, kInfinity, -200.f, 200.f, -100.f, std::numeric_limits<float>::quiet_NaN()});
    EXPECT_EQ(ends[0], 1.f);
    EXPECT_EQ(ends[1], 0.f);
    EXPECT_EQ(ends[2], kInfinity);
    EXPECT_EQ(ends[3], 0.f);
    EXPECT_EQ(ends[4], kInfinity);
    EXPECT_NEAR(ends[5], std::exp(-100.0), 1.5e-45);  // one step of the subnormals
    EXPECT_TRUE(std::isnan(ends[6]));
    EXPECT_EQ(evaluated(kExpNonpositive, {0.f, -87.5f, -kInfinity, -3e38f}),
        (std::vector<float>{1.f, 0.f, 0.f, 0.f}));
    EXPECT_EQ(
        evaluated(kTanh, {0.f, kInfinity, -kInfinity, 50.f}), (std::vector<float>{0.f, 1.f, -1.f, 1.f}));
  });
}

}  // namespace
}  // namespace cheetah
#endif  // HWY_ONCE
