// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "quantize/gptq.h"

namespace cheetah {
namespace {

constexpr int64_t kRows = 24, kCols = 64, kTokens = 512;

struct Case {
  ThreadPool pool{{.num_threads = 2}};
  std::vector<float> w;
  Moments moments{.width = kCols};
};

// Inputs that go together: each is mostly what its neighbour is, as in a real layer.
void fill(Case& c) {
  Philox random(11);
  for (int64_t i = 0; i < kRows * kCols; ++i) c.w.push_back(random.next_normal());
  c.moments.tokens = kTokens;
  c.moments.products.resize(kCols * kCols);
  for (int64_t t = 0; t < kTokens; ++t) {
    float x[kCols];
    for (int64_t i = 0; i < kCols; ++i)
      x[i] = (i ? 0.8f * x[i - 1] : 0.f) + random.next_normal() * (i % 7 == 0 ? 3.f : 1.f);
    for (int64_t i = 0; i < kCols; ++i)
      for (int64_t j = 0; j < kCols; ++j)
        c.moments.products[static_cast<size_t>(i * kCols + j)] += x[i] * x[j];
  }
}

// What the layer's outputs are off by, squared and summed.
double output_error(const Case& c, const IntMatrix& rounded) {
  double error = 0;
  std::vector<float> row(kCols);
  for (int64_t r = 0; r < kRows; ++r) {
    dequantize_row(rounded, r, row.data());
    for (int64_t i = 0; i < kCols; ++i)
      row[static_cast<size_t>(i)] -= c.w[static_cast<size_t>(r * kCols + i)];
    for (size_t i = 0; i < kCols; ++i)
      for (size_t j = 0; j < kCols; ++j)
        error += static_cast<double>(row[i]) * row[j] * c.moments.products[i * kCols + j];
  }
  return error;
}

TEST(InvertToUpper, GivesAFactorOfTheInverse) {
  ThreadPool pool({.num_threads = 2});
  std::vector<double> a = {4, 1, 0.5, 1, 3, 0.25, 0.5, 0.25, 2};
  const std::vector<double> original = a;
  invert_to_upper(a, 3, pool);
  EXPECT_EQ(a[3], 0);
  EXPECT_EQ(a[6], 0);
  EXPECT_EQ(a[7], 0);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 3; ++j) {
      double sum = 0;  // (U^T U A)[i][j]
      for (int k = 0; k < 3; ++k)
        for (int m = 0; m < 3; ++m)
          sum += a[static_cast<size_t>(m * 3 + i)] * a[static_cast<size_t>(m * 3 + k)] *
                 original[static_cast<size_t>(k * 3 + j)];
      EXPECT_NEAR(sum, i == j, 1e-12);
    }
  std::vector<double> singular = {1, 1, 1, 1};
  EXPECT_THROW(invert_to_upper(singular, 2, pool), Error);
}

TEST(RoundToNearest, IsWithinHalfAStepAndExactOnTheGrid) {
  Case c;
  fill(c);
  const GridRules rules{.bits = 4, .group = 32, .symmetric = true, .scale_type = DType::kF16};
  const IntMatrix rounded = round_to_nearest({c.w.data(), kRows, kCols}, rules, {}, c.pool);
  std::vector<float> row(kCols);
  for (int64_t r = 0; r < kRows; ++r) {
    dequantize_row(rounded, r, row.data());
    for (int64_t i = 0; i < kCols; ++i) {
      const float scale = rounded.scales[static_cast<size_t>(r * 2 + i / 32)];
      EXPECT_LE(
          std::fabs(row[static_cast<size_t>(i)] - c.w[static_cast<size_t>(r * kCols + i)]), scale * 1.01f);
    }
  }
  EXPECT_TRUE(exact_block_type(rounded));
}

TEST(RoundToNearest, ARowOfZerosStaysZero) {
  ThreadPool pool({.num_threads = 1});
  const std::vector<float> zeros(kCols, 0.f);
  for (const bool symmetric : {true, false}) {
    const IntMatrix rounded = round_to_nearest(
        {zeros.data(), 1, kCols}, {.bits = 4, .group = 32, .symmetric = symmetric}, {}, pool);
    std::vector<float> row(kCols, 1.f);
    dequantize_row(rounded, 0, row.data());
    EXPECT_EQ(row, zeros);
  }
}

TEST(Gptq, ErrsLessInTheOutputsThanRoundToNearest) {
  Case c;
  fill(c);
  for (const int bits : {2, 3, 4, 8})
    for (const bool symmetric : {true, false}) {
      GridRules rules{
          .bits = bits, .group = 32, .symmetric = symmetric, .scale_type = DType::kF16, .search = true};
      const double nearest = output_error(
          c, round_to_nearest({c.w.data(), kRows, kCols}, rules, c.moments.importance(), c.pool));
      for (const bool by_activity : {false, true}) {
        const double gptq =
            output_error(c, round_gptq(c.w, kRows, rules, c.moments, {.by_activity = by_activity}, c.pool));
        EXPECT_LT(gptq, 0.75 * nearest) << bits << symmetric << by_activity;
      }
    }
}

}  // namespace
}  // namespace cheetah
