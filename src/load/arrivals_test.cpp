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
  const std::vector<double> times = arrival_times(plan, count, kForever);
  const auto gaps = static_cast<double>(times.size() - 1);
  const double mean = times.back() / gaps;
  double squares = 0;
  for (size_t i = 1; i < times.size(); ++i) squares += std::pow(times[i] - times[i - 1] - mean, 2);
  return {mean, squares / gaps / mean / mean};
}

TEST(Arrivals, ConstantGapsAreAllEqual) {
  const auto times = arrival_times({.kind = ArrivalKind::kConstant, .rate = 4}, 5, kForever);
  EXPECT_EQ(times, (std::vector<double>{0, 0.25, 0.5, 0.75, 1}));
}

TEST(Arrivals, PoissonGapsHaveTheMeanAndTheVariationOfAnExponential) {
  // Standard error of the mean is 1/sqrt(n) = 0.5 % of it, of the variation about 2.8 %: five of them.
  const Moments moments = gap_moments({.kind = ArrivalKind::kPoisson, .rate = 8, .seed = 3}, 40001);
  EXPECT_NEAR(moments.mean, 1.0 / 8, 0.025 / 8);
  EXPECT_NEAR(moments.variation, 1, 0.14);
}

TEST(Arrivals, PoissonCountsInASecondHaveEqualMeanAndVariance) {
  const auto times = arrival_times({.kind = ArrivalKind::kPoisson, .rate = 5, .seed = 11}, 50000, kForever);
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

TEST(Arrivals, StartAtZeroAscendAndStopAtTheDuration) {
  for (const ArrivalKind kind : {ArrivalKind::kPoisson, ArrivalKind::kConstant, ArrivalKind::kBursty}) {
    const auto times = arrival_times({.kind = kind, .rate = 100, .seed = 1}, 1'000'000, 2.0);
    EXPECT_EQ(times.front(), 0);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    EXPECT_LE(times.back(), 2.0);
    EXPECT_GT(times.size(), 100u);
  }
}

TEST(Arrivals, AreAFunctionOfTheSeed) {
  ArrivalPlan plan{.rate = 3, .seed = 9};
  const auto times = arrival_times(plan, 50, kForever);
  EXPECT_EQ(times, arrival_times(plan, 50, kForever));
  plan.seed = 10;
  EXPECT_NE(times, arrival_times(plan, 50, kForever));
}

TEST(Arrivals, AreNamed) {
  EXPECT_EQ(arrival_kind_from("bursty"), ArrivalKind::kBursty);
  EXPECT_THROW(arrival_kind_from("poison"), UsageError);
}

}  // namespace
}  // namespace cheetah
