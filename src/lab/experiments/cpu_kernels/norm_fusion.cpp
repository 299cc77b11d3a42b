// SPDX-License-Identifier: MIT
// Residual add and RMSNorm: a pass over memory for each step, one pass for all, and this project's kernel.
#include <cmath>

#include "kernels/norm/norm.h"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int64_t kCols = 2048;
constexpr float kEps = 1e-6f;

float sum_of_squares(const float* x) {
  float sums[16] = {};
  for (int64_t i = 0; i < kCols; i += 16)
    for (int64_t c = 0; c < 16; ++c) sums[c] += x[i + c] * x[i + c];
  float sum = 0;
  for (const float each : sums) sum += each;
  return sum;
}

// Each step reads and writes all rows before the next begins.
void in_passes(
    const float* x, const float* residual, const float* weight, float* scratch, float* y, int64_t rows) {
  for (int64_t i = 0; i < rows * kCols; ++i) y[i] = x[i] + residual[i];
  for (int64_t row = 0; row < rows; ++row)
    scratch[row] = 1 / std::sqrt(sum_of_squares(y + row * kCols) / kCols + kEps);
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < kCols; ++i) y[row * kCols + i] *= scratch[row];
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t i = 0; i < kCols; ++i) y[row * kCols + i] *= weight[i];
}

// All steps of a row while it is in the L1.
void row_by_row(const float* x, const float* residual, const float* weight, float* y, int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    const float *a = x + row * kCols, *b = residual + row * kCols;
    float* out = y + row * kCols;
    for (int64_t i = 0; i < kCols; ++i) out[i] = a[i] + b[i];
    const float scale = 1 / std::sqrt(sum_of_squares(out) / kCols + kEps);
    for (int64_t i = 0; i < kCols; ++i) out[i] *= scale * weight[i];
  }
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t rows = setup.dim(0), n = rows * kCols;
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n);
  const auto residual = trial->input<float>("residual", n);
  const auto weight = trial->input<float>("weight", kCols, 0.5, 1.5);
  const auto scales = trial->scratch<float>("scales", rows);
  const auto y = trial->output<float>("y", n);
  trial->set_cost({.flops = 5.0 * static_cast<double>(n),
      .bytes = 12.0 * static_cast<double>(n),
      .roof = Roof::kCoreDram});
  trial->reference([=](const HostArrays& host) {
    for (int64_t row = 0; row < rows; ++row) {
      double squares = 0;
      const auto at = [&](int64_t i) {
        const auto index = static_cast<size_t>(row * kCols + i);
        return static_cast<double>(host[x][index]) + host[residual][index];
      };
      for (int64_t i = 0; i < kCols; ++i) squares += at(i) * at(i);
      for (int64_t i = 0; i < kCols; ++i)
        host[y][static_cast<size_t>(row * kCols + i)] = static_cast<float>(
            at(i) / std::sqrt(squares / kCols + kEps) * host[weight][static_cast<size_t>(i)]);
    }
  });
  trial->variant("passes",
      [=](const Launch& at) { in_passes(at[x], at[residual], at[weight], at[scales], at[y], rows); });
  trial->variant(
      "row by row", [=](const Launch& at) { row_by_row(at[x], at[residual], at[weight], at[y], rows); });
  const auto one = std::make_shared<ThreadPool>(ThreadPool::Options{.num_threads = 1, .pin = false});
  trial->variant("add, then kernel", [=](const Launch& at) {
    for (int64_t i = 0; i < n; ++i) at[y][i] = at[x][i] + at[residual][i];
    rms_norm({.x = at[y],
                 .x_stride = kCols,
                 .y = at[y],
                 .y_stride = kCols,
                 .rows = rows,
                 .cols = kCols,
                 .weight = at[weight],
                 .eps = kEps},
        {.pool = *one});
  });
  return trial;
}

const Registered kNormFusion({
    .id = "cpu/norm-fusion",
    .title = "Fused normalisation",
    .question = "What does it gain to add, normalise and scale in one pass over memory?",
    .mechanism =
        "Four passes move nine words per element, one pass moves three. Past the caches time follows "
        "bytes, not "
        "operations.",
    .claim =
        {.text =
                "Fusing elementwise steps keeps intermediates out of memory: about 2x for memory-bound chains."},
    .domain = Domain::kCpu,
    .variants = {{"passes", "add, sum, scale, weight: one loop over everything each"},
        {"row by row", "all steps of a row while it is cached"},
        {"add, then kernel", "one pass for the addition, the engine's kernel for the rest"}},
    .sizes = {{"64 rows", {64}}, {"4096 rows", {4096}}},
    .quick = {{"2048 rows", {2048}}},
    .tolerance = {.relative = 1e-4, .absolute = 1e-5},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
