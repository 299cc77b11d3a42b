// SPDX-License-Identifier: MIT
// y = x^T, square: whichever side is read in order, the other jumps, unless tiles keep both in the cache.
#include <algorithm>

#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

void transpose_tiles(const float* x, float* y, int64_t n, int64_t tile) {
  for (int64_t row0 = 0; row0 < n; row0 += tile)
    for (int64_t col0 = 0; col0 < n; col0 += tile)
      for (int64_t row = row0; row < std::min(n, row0 + tile); ++row)
        for (int64_t col = col0; col < std::min(n, col0 + tile); ++col) y[col * n + row] = x[row * n + col];
}

std::unique_ptr<Trial> make(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto x = trial->input<float>("x", n * n);
  const auto y = trial->output<float>("y", n * n);
  trial->set_cost({.bytes = 8.0 * static_cast<double>(n * n), .roof = Roof::kCoreDram});
  trial->reference([=](const HostArrays& host) {
    for (int64_t row = 0; row < n; ++row)
      for (int64_t col = 0; col < n; ++col)
        host[y][static_cast<size_t>(col * n + row)] = host[x][static_cast<size_t>(row * n + col)];
  });
  trial->variant("reads in order", [=](const Launch& at) { transpose_tiles(at[x], at[y], n, n); });
  trial->variant("writes in order", [=](const Launch& at) {
    for (int64_t col = 0; col < n; ++col)
      for (int64_t row = 0; row < n; ++row) at[y][col * n + row] = at[x][row * n + col];
  });
  trial->variant("tiles of 16", [=](const Launch& at) { transpose_tiles(at[x], at[y], n, 16); });
  trial->variant("tiles of 64", [=](const Launch& at) { transpose_tiles(at[x], at[y], n, 64); });
  return trial;
}

const Registered kTranspose({
    .id = "cpu/transpose",
    .title = "Transpose in tiles",
    .question = "What do tiles gain for a matrix transpose?",
    .mechanism =
        "Row by row, every store opens another line and the lines are gone before their next word comes. A "
        "tile of 16 floats a side uses 16 whole lines on both sides while they are in the L1.",
    .claim = {.text =
                  "Tiling turns strided accesses into whole lines, as a shared-memory tile does on a GPU."},
    .domain = Domain::kCpu,
    .variants = {{"reads in order", "row by row, stores a row apart"},
        {"writes in order", "column by column, loads a row apart"}, {"tiles of 16", "one line each way"},
        {"tiles of 64", "four lines each way"}},
    .sizes = {{"512x512", {512}}, {"2048x2048", {2048}}, {"4096x4096", {4096}}},
    .quick = {{"1024x1024", {1024}}},
    .make = make,
});

}  // namespace
}  // namespace cheetah::lab
