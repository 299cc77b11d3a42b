// SPDX-License-Identifier: MIT
#include "load/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace cheetah {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

struct Moments {
  double mean = 0, variation = 0;  // of the gaps; variation: squared deviation over squared mean
};

Moments gap_moments(const ArrivalPlan& plan, int64_t count) {
  const std::vector<double> times = draw_arrivals(plan, count, kForever).times;
  const auto gaps = static_cast<double>(times.size() - 1);
  const double mean = times.back() / gaps;
  double squares = 0;
  for (size_t i = 1; i < times.size(); ++i) squares += std::pow(times[i] - times[i - 1] - mean, 2);
  return {mean, squares / gaps / mean / mean};
}

TEST(Arrivals, ConstantGapsAreAllEqual) {
  const Arrivals arrivals = draw_arrivals({.kind = ArrivalKind::kConstant, .rate = 4}, 5, kForever);
  EXPECT_EQ(arrivals.window_s, 1.25);
  EXPECT_EQ(arrivals.times, (std::vector<double>{0, 0.25, 0.5, 0.75, 1}));
}

TEST(Arrivals, PoissonGapsHaveTheMeanAndTheVariationOfAnExponential) {
  // Standard error of the mean is 1/sqrt(n) = 0.5 % of it, of the variation about 2.8 %: five of them.
  const Moments moments = gap_moments({.kind = ArrivalKind::kPoisson, .rate = 8, .seed = 3}, 40001);
  EXPECT_NEAR(moments.mean, 1.0 / 8, 0.025 / 8);
  EXPECT_NEAR(moments.variation, 1, 0.14);
}

TEST(Arrivals, PoissonCountsInASecondHaveEqualMeanAndVariance) {
  const auto times =
      draw_arrivals({.kind = ArrivalKind::kPoisson, .rate = 5, .seed = 11}, 50000, kForever).times;
  const auto seconds = static_cast<size_t>(times.back());
  std::vector<double> counts(seconds, 0);
  for (const double time : times)
    if (time < static_cast<double>(seconds)) ++counts[static_cast<size_t>(time)];
  double mean = 0, squares = 0;
  for (const double count : counts) mean += count / static_cast<double>(seconds);
  for (const double count : counts) squares += (count - mean) * (count - mean) / static_cast<double>(seconds);
  EXPECT_NEAR(mean, 5, 0.15);
  EXPECT_NEAR(squares / mean, 1, 0.1);
}

TEST(Arrivals, BurstyGapsKeepTheMeanAndSpreadByTheShape) {
  for (const double shape : {0.1, 0.25, 0.5, 1.0, 4.0}) {
    const Moments moments =
        gap_moments({.kind = ArrivalKind::kBursty, .rate = 2, .burst_shape = shape, .seed = 5}, 60001);
    EXPECT_NEAR(moments.mean, 0.5, 0.5 * 5 / std::sqrt(60000 * shape)) << shape;
    EXPECT_NEAR(moments.variation * shape, 1, 0.2) << shape;
  }
}

TEST(Arrivals, AscendWithinTheirWindow) {
  for (const ArrivalKind kind : {ArrivalKind::kPoisson, ArrivalKind::kConstant, ArrivalKind::kBursty}) {
    const auto times = draw_arrivals({.kind = kind, .rate = 100, .seed = 1}, 1'000'000, 2.0).times;
    EXPECT_GE(times.front(), 0);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    EXPECT_LE(times.back(), 2.0);
    EXPECT_EQ(times.size(), 200u);
  }
}

TEST(Arrivals, OfAShortRunOfferTheRateAskedFor) {
  for (const ArrivalKind kind : {ArrivalKind::kPoisson, ArrivalKind::kConstant, ArrivalKind::kBursty})
    for (uint64_t seed = 0; seed < 20; ++seed) {
      const Arrivals arrivals = draw_arrivals({.kind = kind, .rate = 8, .seed = seed}, 1'000'000, 5.0);
      EXPECT_EQ(arrivals.times.size(), 40u);
      EXPECT_DOUBLE_EQ(arrivals.rate(), 8);
    }
  const Arrivals few = draw_arrivals({.rate = 0.1, .seed = 1}, 1'000'000, 2.0);
  EXPECT_EQ(few.times.size(), 1u);
  EXPECT_DOUBLE_EQ(few.rate(), 0.5);
  const Arrivals counted = draw_arrivals({.rate = 10, .seed = 1}, 50, 100.0);
  EXPECT_EQ(counted.times.size(), 50u);
  EXPECT_DOUBLE_EQ(counted.rate(), 10);
}

TEST(Arrivals, AreAFunctionOfTheSeed) {
  ArrivalPlan plan{.rate = 3, .seed = 9};
  const auto times = draw_arrivals(plan, 50, kForever).times;
  EXPECT_EQ(times, draw_arrivals(plan, 50, kForever).times);
  plan.seed = 10;
  EXPECT_NE(times, draw_arrivals(plan, 50, kForever).times);
}

TEST(Arrivals, AreNamed) {
  EXPECT_EQ(arrival_kind_from("bursty"), ArrivalKind::kBursty);
  EXPECT_THROW(arrival_kind_from("poison"), UsageError);
}

}  // namespace
}  // namespace cheetah
