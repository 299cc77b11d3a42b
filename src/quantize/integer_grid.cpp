// SPDX-License-Identifier: MIT
#include "quantize/integer_grid.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/quant/quant.h"

namespace cheetah {
namespace {

float rounded_scale(float scale, DType type) {
  std::byte stored[4];
  float back = 0;
  quantize_row(type, &scale, stored, 1);
  dequantize_row(type, stored, &back, 1);
  return back;
}

struct Range {
  float low = 0;
  float high = 0;
};

GroupGrid grid_of(const Range& range, const GridRules& rules) {
  const int most = (1 << rules.bits) - 1;
  const float span = range.high - range.low;
  GroupGrid grid{.scale = rounded_scale(span / static_cast<float>(most), rules.scale_type),
      .zero = 1 << (rules.bits - 1)};
  if (grid.scale <= 0) return {.scale = rounded_scale(1.f / 65536, rules.scale_type), .zero = grid.zero};
  if (!rules.symmetric)
    grid.zero = std::clamp(static_cast<int>(std::lround(-range.low / grid.scale)), 0, most);
  return grid;
}

Range range_of(const float* x, int64_t count, bool symmetric) {
  Range range;
  for (int64_t i = 0; i < count; ++i) {
    range.low = std::min(range.low, x[i]);
    range.high = std::max(range.high, x[i]);
  }
  if (symmetric) {
    range.high = std::max(range.high, -range.low);
    range.low = -range.high;
  }
  return range;
}

double error_of(const float* x, int64_t count, const GroupGrid& grid, int bits, const float* importance) {
  double error = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double miss = static_cast<double>(value_of(code_of(x[i], grid, bits), grid)) - x[i];
    error += (importance ? static_cast<double>(importance[i]) : 1.0) * miss * miss;
  }
  return error;
}

}  // namespace

uint8_t code_of(float value, const GroupGrid& grid, int bits) {
  const auto level = static_cast<int>(std::lround(value / grid.scale)) + grid.zero;
  return static_cast<uint8_t>(std::clamp(level, 0, (1 << bits) - 1));
}

float value_of(uint8_t code, const GroupGrid& grid) {
  return grid.scale * static_cast<float>(code - grid.zero);
}

GroupGrid fit_grid(const float* x, int64_t count, const GridRules& rules, const float* importance) {
  const Range whole = range_of(x, count, rules.symmetric);
  GroupGrid best = grid_of(whole, rules);
  if (!rules.search || whole.high <= whole.low) return best;
  double least = error_of(x, count, best, rules.bits, importance);
  constexpr int kSteps = 24;
  for (int step = 1; step <= kSteps; ++step) {
    const float share = 1.f - 0.5f * static_cast<float>(step) / kSteps;
    const GroupGrid grid = grid_of({whole.low * share, whole.high * share}, rules);
    const double error = error_of(x, count, grid, rules.bits, importance);
    if (error >= least) continue;
    least = error;
    best = grid;
  }
  return best;
}

IntMatrix fit_grids(
    const MatrixRows& w, const GridRules& rules, std::span<const float> importance, ThreadPool& pool) {
  IntMatrix matrix{.rows = w.rows, .cols = w.cols, .bits = rules.bits};
  const int64_t size = std::min(rules.group, w.cols);
  matrix.groups = w.cols / size;
  matrix.codes.resize(static_cast<size_t>(w.rows * w.cols));
  matrix.scales.resize(static_cast<size_t>(w.rows * matrix.groups));
  matrix.zeros.resize(matrix.scales.size());
  pool.parallel_for(w.rows, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t g = 0; g < matrix.groups; ++g) {
        const GroupGrid grid = fit_grid(w.data + r * w.cols + g * size, size, rules,
            importance.empty() ? nullptr : importance.data() + g * size);
        const auto at = static_cast<size_t>(r * matrix.groups + g);
        matrix.scales[at] = grid.scale;
        matrix.zeros[at] = static_cast<uint16_t>(grid.zero);
      }
  });
  return matrix;
}

IntMatrix round_to_nearest(
    const MatrixRows& w, const GridRules& rules, std::span<const float> importance, ThreadPool& pool) {
  IntMatrix matrix = fit_grids(w, rules, importance, pool);
  pool.parallel_for(w.rows, 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c = 0; c < w.cols; ++c) {
        const auto at = static_cast<size_t>(r * matrix.groups + matrix.group(c));
        matrix.codes[static_cast<size_t>(r * w.cols + c)] =
            code_of(w.data[r * w.cols + c], {matrix.scales[at], matrix.zeros[at]}, rules.bits);
      }
  });
  return matrix;
}

}  // namespace cheetah
