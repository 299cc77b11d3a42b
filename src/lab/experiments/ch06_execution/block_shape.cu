// SPDX-License-Identifier: MIT
// Shapes of a block: lanes that are no full warp, and which way a warp lies on a matrix.
#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kWork = 256;  // multiply-adds an element

__global__ void work_on(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= n) return;
  float v = x[i];
#pragma unroll 16
  for (int k = 0; k < kWork; ++k) v = v * 0.99f + 0.01f;
  y[i] = v;
}

struct Worked {
  const float* x;
  __device__ double operator()(int64_t i) const {
    double v = x[i];
    for (int k = 0; k < kWork; ++k) v = v * static_cast<double>(0.99f) + static_cast<double>(0.01f);
    return v;
  }
};

std::unique_ptr<Trial> make_warps(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto y = trial->output<float>(n);
  trial->expect<Worked>(y, [=](const At& at) { return Worked{at[x]}; });
  trial->set_cost({.flops = 2.0 * kWork * n, .bytes = 8.0 * n, .roof = Roof::kFp32});
  const std::pair<const char*, int64_t> sizes[] = {
      {"33", 33}, {"48", 48}, {"64", 64}, {"100", 100}, {"128", 128}};
  for (const auto& [name, threads] : sizes)
    trial->variant(name, [=, threads = threads](const At& at) {
      gpu::launch({.kernel = "work_on", .grid = {blocks_of(n, threads)}, .block = {threads}, .numbers = {n}},
          at.stream(), work_on, at[x], at[y], static_cast<int>(n));
    });
  return trial;
}

__global__ void double_matrix(const float* x, float* y, int n) {
  const int column = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  const int row = static_cast<int>(blockIdx.y * blockDim.y + threadIdx.y);
  if (column >= n || row >= n) return;
  const int64_t at = static_cast<int64_t>(row) * n + column;
  y[at] = 2 * x[at];
}

struct Doubled {
  const float* x;
  __device__ double operator()(int64_t i) const { return 2.0 * x[i]; }
};

std::unique_ptr<Trial> make_matrix(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n * n);
  const auto y = trial->output<float>(n * n);
  trial->expect<Doubled>(y, [=](const At& at) { return Doubled{at[x]}; });
  trial->set_cost({.flops = 1.0 * n * n, .bytes = 8.0 * n * n});
  const std::pair<const char*, gpu::Extent> shapes[] = {
      {"16x16", {16, 16}}, {"32x8", {32, 8}}, {"256x1", {256, 1}}, {"8x32", {8, 32}}, {"1x256", {1, 256}}};
  for (const auto& [name, block] : shapes)
    trial->variant(name, [=, block = block](const At& at) {
      gpu::launch({.kernel = "double_matrix",
                      .grid = {blocks_of(n, block.x), blocks_of(n, block.y)},
                      .block = block,
                      .numbers = {n}},
          at.stream(), double_matrix, at[x], at[y], static_cast<int>(n));
    });
  return trial;
}

const Registered kWarps({
    .id = "ch06/warp-multiple",
    .title = "Blocks that are no whole warps",
    .question = "What does a block size cost that is not a multiple of 32?",
    .mechanism = "A warp issues for 32 lanes whether they exist or not: 33 threads take two warps and use 33 "
                 "of 64 lanes, 48 "
                 "three quarters, 100 of 128. In a compute-bound kernel time follows the lanes.",
    .claim =
        {.text =
                "A block of 33 threads burns two warp slots with the second used by a 32nd; no time is given.",
            .variant = "64",
            .speedup = 64.0 / 33},
    .variants = {{"33", "52 % of the lanes"}, {"48", "75 % of the lanes"}, {"64", "all lanes"},
        {"100", "78 % of the lanes"}, {"128", "all lanes"}},
    .sizes = sizes_of({1 << 20, 1 << 24}),
    .tolerance = {.absolute = 2e-5},
    .make = make_warps,
});

const Registered kMatrix({
    .id = "ch06/block-shape",
    .title = "Block shapes on a matrix",
    .question = "Which way should a block of 256 threads lie on a row-major matrix?",
    .mechanism = "Lanes run along x first: 32 or more threads along x make whole lines, 16 make half lines "
                 "whose sectors are "
                 "still full, 8 per sector per row, and 1 puts each lane on a row of its own.",
    .claim = {.text = "A 2D kernel with 16 x 16 blocks is the starting point; no figure is given."},
    .variants = {{"16x16", "two rows of 64 bytes per warp"}, {"32x8", "one row of 128 bytes per warp"},
        {"256x1", "one long row"}, {"8x32", "four rows of a sector per warp"},
        {"1x256", "a row per lane: uncoalesced"}},
    .sizes = sizes_of({1024, 4096, 16384}),
    .make = make_matrix,
});

}  // namespace
}  // namespace cheetah::lab
