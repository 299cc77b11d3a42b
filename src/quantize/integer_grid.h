// SPDX-License-Identifier: MIT
#pragma once
// Rounding a matrix to integers with a scale per group.
#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "model/packed/int_matrix.h"
#include "tensor/dtype.h"

namespace cheetah {

struct GridRules {
  int bits = 4;
  int64_t group = 128;  // inputs to a scale; the whole row where it is longer
  bool symmetric = true;
  DType scale_type = DType::kF16;  // scales are rounded to it before numbers are
  bool search = false;             // shrink the range where that errs less
};

struct MatrixRows {
  const float* data = nullptr;  // [rows, cols]
  int64_t rows = 0;
  int64_t cols = 0;
};

struct GroupGrid {
  float scale = 0;
  int zero = 0;
};

// The grid of one group. importance [count]: how much each number's squared error counts; or none.
GroupGrid fit_grid(const float* x, int64_t count, const GridRules& rules, const float* importance);
uint8_t code_of(float value, const GroupGrid& grid, int bits);
float value_of(uint8_t code, const GroupGrid& grid);

// Round to nearest. importance [cols], or empty.
IntMatrix round_to_nearest(
    const MatrixRows& w, const GridRules& rules, std::span<const float> importance, ThreadPool& pool);

// A matrix with its grids, before any number is rounded.
IntMatrix fit_grids(
    const MatrixRows& w, const GridRules& rules, std::span<const float> importance, ThreadPool& pool);

}  // namespace cheetah
