// SPDX-License-Identifier: MIT
#include "quantize/gptq.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace cheetah {
namespace {

// A = L L^T, L in the lower triangle.
void factor(std::vector<double>& a, int64_t n, ThreadPool& pool) {
  for (int64_t k = 0; k < n; ++k) {
    double* pivot_row = a.data() + k * n;
    double pivot = pivot_row[k];
    for (int64_t j = 0; j < k; ++j) pivot -= pivot_row[j] * pivot_row[j];
    if (!(pivot > 0)) throw Error("the inputs of a layer do not vary enough to calibrate it: give more text");
    pivot_row[k] = std::sqrt(pivot);
    pool.parallel_for(n - k - 1, 32, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = k + 1 + begin; i < k + 1 + end; ++i) {
        double* row = a.data() + i * n;
        double sum = row[k];
        for (int64_t j = 0; j < k; ++j) sum -= row[j] * pivot_row[j];
        row[k] = sum / pivot_row[k];
      }
    });
  }
}

// The columns of L's inverse, written as rows of `inverse` (so its upper triangle is L^-T).
std::vector<double> inverse_transposed(const std::vector<double>& l, int64_t n, ThreadPool& pool) {
  std::vector<double> inverse(static_cast<size_t>(n * n));
  pool.parallel_for(n, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t c = begin; c < end; ++c) {
      double* column = inverse.data() + c * n;
      column[c] = 1 / l[static_cast<size_t>(c * n + c)];
      for (int64_t i = c + 1; i < n; ++i) {
        const double* row = l.data() + i * n;
        double sum = 0;
        for (int64_t j = c; j < i; ++j) sum -= row[j] * column[j];
        column[i] = sum / row[i];
      }
    }
  });
  return inverse;
}

struct Order {
  std::vector<int64_t> at;  // position in the rounding -> input
};

Order order_of(const Moments& moments, bool by_activity) {
  Order order;
  order.at.resize(static_cast<size_t>(moments.width));
  std::iota(order.at.begin(), order.at.end(), 0);
  if (!by_activity) return order;
  const auto square = [&](int64_t i) { return moments.products[static_cast<size_t>(i * moments.width + i)]; };
  std::ranges::stable_sort(order.at, [&](int64_t a, int64_t b) { return square(a) > square(b); });
  return order;
}

// The damped products in the rounding's order. What few tokens say of two inputs' going together is mostly
// chance: it counts by the tokens' share of tokens and inputs, which makes up for experts that few were sent to.
std::vector<double> damped(const Moments& moments, const Order& order, double damp) {
  const int64_t n = moments.width;
  double mean = 0;
  for (int64_t i = 0; i < n; ++i) mean += moments.products[static_cast<size_t>(i * n + i)];
  mean /= static_cast<double>(n);
  if (!(mean > 0)) mean = 1;
  const double trust = static_cast<double>(moments.tokens) / static_cast<double>(moments.tokens + n);
  std::vector<double> matrix(static_cast<size_t>(n * n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      matrix[static_cast<size_t>(i * n + j)] =
          (i == j ? 1.0 : trust) *
          static_cast<double>(moments.products[static_cast<size_t>(
              order.at[static_cast<size_t>(i)] * n + order.at[static_cast<size_t>(j)])]);
  for (int64_t i = 0; i < n; ++i) matrix[static_cast<size_t>(i * n + i)] += damp * mean;
  return matrix;
}

}  // namespace

// inverse = L^-T L^-1. Its upper factor comes from factoring it with rows and columns reversed, but both steps
// fold into one: with P the reversal and P A P = L L^T, U = P L^-1 P is upper and U^T U = A^-1.
void invert_to_upper(std::vector<double>& matrix, int64_t n, ThreadPool& pool) {
  std::ranges::reverse(matrix);  // of all n * n numbers: rows and columns at once
  factor(matrix, n, pool);
  const std::vector<double> inverse = inverse_transposed(matrix, n, pool);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      matrix[static_cast<size_t>((n - 1 - i) * n + (n - 1 - j))] =
          j <= i ? inverse[static_cast<size_t>(j * n + i)] : 0.0;
}

IntMatrix round_gptq(std::vector<float> w, int64_t rows, const GridRules& rules, const Moments& moments,
    const GptqOptions& options, ThreadPool& pool) {
  const int64_t cols = moments.width;
  const std::vector<float> importance = moments.importance();
  IntMatrix matrix = fit_grids({.data = w.data(), .rows = rows, .cols = cols}, rules, importance, pool);
  const Order order = order_of(moments, options.by_activity);
  std::vector<double> upper = damped(moments, order, options.damp);
  invert_to_upper(upper, cols, pool);
  pool.parallel_for(rows, 2, [&](int64_t begin, int64_t end, int) {
    std::vector<double> left(static_cast<size_t>(cols));  // what is still to be rounded, in order
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t i = 0; i < cols; ++i)
        left[static_cast<size_t>(i)] = w[static_cast<size_t>(r * cols + order.at[static_cast<size_t>(i)])];
      for (int64_t i = 0; i < cols; ++i) {
        const int64_t col = order.at[static_cast<size_t>(i)];
        const auto at = static_cast<size_t>(r * matrix.groups + matrix.group(col));
        const GroupGrid grid{matrix.scales[at], matrix.zeros[at]};
        const double value = left[static_cast<size_t>(i)];
        const uint8_t code = code_of(static_cast<float>(value), grid, rules.bits);
        matrix.codes[static_cast<size_t>(r * cols + col)] = code;
        const double* u = upper.data() + i * cols;
        const double miss = (value - static_cast<double>(value_of(code, grid))) / u[i];
        for (int64_t j = i + 1; j < cols; ++j) left[static_cast<size_t>(j)] -= miss * u[j];
      }
    }
  });
  return matrix;
}

}  // namespace cheetah
