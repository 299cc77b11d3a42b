// SPDX-License-Identifier: MIT
// Making every byte fetched count: one pass over the weights for a whole batch, and rows without padding.
#include <algorithm>

#include "gpu/launch.cuh"
#include "kernels/cuda/reduce.cuh"
#include "lab/array_trial.h"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256, kWarps = kThreads / 32;

// y [batch, kRows] = x [batch, kColumns] W^T, all F32. One warp computes kRowsPerWarp rows for kBatch tokens.
constexpr int kRows = 4096, kColumns = 4096;

template <int kBatch, int kRowsPerWarp>
__global__ __launch_bounds__(kThreads) void product(const float* w, const float* x, float* y) {
  const int lane = threadIdx.x % 32;
  const int row = (blockIdx.x * kWarps + threadIdx.x / 32) * kRowsPerWarp;
  float sums[kRowsPerWarp][kBatch] = {};
  for (int i = lane; i < kColumns / 4; i += 32) {
    float4 weights[kRowsPerWarp];
#pragma unroll
    for (int r = 0; r < kRowsPerWarp; ++r)
      weights[r] = reinterpret_cast<const float4*>(w + int64_t{row + r} * kColumns)[i];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const float4 v = reinterpret_cast<const float4*>(x + b * kColumns)[i];
#pragma unroll
      for (int r = 0; r < kRowsPerWarp; ++r)
        sums[r][b] += weights[r].x * v.x + weights[r].y * v.y + weights[r].z * v.z + weights[r].w * v.w;
    }
  }
#pragma unroll
  for (int r = 0; r < kRowsPerWarp; ++r)
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const float sum = gpu::warp_sum(sums[r][b]);
      if (lane == 0) y[int64_t{b} * kRows + row + r] = sum;
    }
}

__global__ void exact(const float* w, const float* x, float* y) {
  const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  double sum = 0;
  for (int i = lane; i < kColumns; i += 32)
    sum += static_cast<double>(w[int64_t{row} * kColumns + i]) * x[int64_t{blockIdx.y} * kColumns + i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, step);
  if (lane == 0) y[int64_t{blockIdx.y} * kRows + row] = static_cast<float>(sum);
}

template <int kBatch, int kRowsPerWarp>
void run(const Launch& at, const float* w, const float* x, float* y) {
  gpu::launch({.kernel = "product", .grid = {kRows / kWarps / kRowsPerWarp}, .block = {kThreads}},
      at.stream(), product<kBatch, kRowsPerWarp>, w, x, y);
}

std::unique_ptr<Trial> make_batch(const Setup& setup) {
  const int64_t batch = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  const auto w = trial->input<float>("w", int64_t{kRows} * kColumns);
  const auto x = trial->input<float>("x", batch * kColumns);
  const auto y = trial->output<float>("y", batch * kRows);
  trial->set_cost({.flops = 2.0 * batch * kRows * kColumns,
      .bytes = 4.0 * kRows * kColumns + 4.0 * batch * (kRows + kColumns),
      .roof = Roof::kDramRead});
  trial->device_reference([=](const Launch& at) {
    gpu::launch({.kernel = "exact", .grid = {kRows / kWarps, batch}, .block = {kThreads}}, at.stream(), exact,
        at[w], at[x], at[y]);
  });
  trial->variant("one-by-one", [=](const Launch& at) {
    for (int64_t b = 0; b < batch; ++b) run<1, 1>(at, at[w], at[x] + b * kColumns, at[y] + b * kRows);
  });
  trial->variant("batched", [=](const Launch& at) {
    if (batch == 1) return run<1, 1>(at, at[w], at[x], at[y]);
    if (batch == 4) return run<4, 2>(at, at[w], at[x], at[y]);
    if (batch == 8) return run<8, 2>(at, at[w], at[x], at[y]);
    for (int64_t b = 0; b < batch; b += 16) run<16, 4>(at, at[w], at[x] + b * kColumns, at[y] + b * kRows);
  });
  return trial;
}

const Registered kBatching({
    .id = "ch09/batching",
    .title = "One pass over the weights for a batch",
    .question = "How does the time of a matrix-vector product grow with the tokens that share its weights?",
    .mechanism = "The weights dominate the bytes, so tokens after the first are nearly free until operations "
                 "or the traffic of "
                 "the activations take over; one product a token reads all weights each time.",
    .claim = {.text = "Batching amortises weight loads: the intensity grows in proportion to the batch."},
    .variants = {{.name = "one-by-one", .idea = "a product a token, each reads W again"},
        {.name = "batched", .idea = "each weight is multiplied with up to 16 tokens while in a register"}},
    .sizes = {{.label = "batch 1", .dims = {1}}, {.label = "batch 4", .dims = {4}},
        {.label = "batch 8", .dims = {8}}, {.label = "batch 16", .dims = {16}},
        {.label = "batch 32", .dims = {32}}},
    .quick = {{.label = "batch 4", .dims = {4}}},
    .tolerance = {.relative = 1e-4, .absolute = 1e-3},
    .make = make_batch,
});

// Rows of 1 to kLongest numbers: y[row] = sum of squares.
constexpr int kLongest = 4096;

__device__ inline void sum_of_squares(const float* row, int length, float* y) {
  __shared__ float scratch[kWarps];
  float sum = 0.f;
  for (int i = threadIdx.x; i < length; i += kThreads) sum = fmaf(row[i], row[i], sum);
  sum = gpu::block_sum<kThreads>(sum, scratch);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
__global__ __launch_bounds__(kThreads) void padded_rows(const float* x, float* y) {
  sum_of_squares(x + int64_t{blockIdx.x} * kLongest, kLongest, y);
}
__global__ __launch_bounds__(kThreads) void masked_rows(const float* x, const int64_t* offsets, float* y) {
  sum_of_squares(
      x + int64_t{blockIdx.x} * kLongest, static_cast<int>(offsets[blockIdx.x + 1] - offsets[blockIdx.x]), y);
}
__global__ __launch_bounds__(kThreads) void packed_rows(const float* x, const int64_t* offsets, float* y) {
  const int64_t begin = offsets[blockIdx.x];
  sum_of_squares(x + begin, static_cast<int>(offsets[blockIdx.x + 1] - begin), y);
}

std::unique_ptr<Trial> make_ragged(const Setup& setup) {
  const int64_t rows = setup.dim(0);
  auto trial = std::make_unique<ArrayTrial>(setup);
  // Most rows are short: lengths are kLongest * u^2. The values' arrays follow the offsets they are made
  // with.
  const auto lengths = std::make_shared<std::vector<int64_t>>();
  const auto offsets =
      trial->input_from<int64_t>("offsets", rows + 1, [lengths](std::span<int64_t> to, uint64_t seed) {
        to[0] = 0;
        for (size_t i = 1; i < to.size(); ++i) {
          const double u = uniform_at(seed, i);
          to[i] = to[i - 1] + 1 + static_cast<int64_t>((kLongest - 1) * u * u);
        }
        lengths->assign(to.begin(), to.end());
      });
  const auto value = [](size_t row, int64_t i) {
    return static_cast<float>(uniform_at(row, static_cast<uint64_t>(i)));
  };
  const auto padded = trial->input_from<float>("padded", rows * kLongest, [=](std::span<float> to, uint64_t) {
    for (size_t row = 0; row + 1 < lengths->size(); ++row)
      for (int64_t i = 0; i < (*lengths)[row + 1] - (*lengths)[row]; ++i)
        to[row * kLongest + static_cast<size_t>(i)] = value(row, i);
  });
  const auto packed =
      trial->input_from<float>("packed", rows * kLongest / 2, [=](std::span<float> to, uint64_t) {
        for (size_t row = 0; row + 1 < lengths->size(); ++row)
          for (int64_t i = 0; i < (*lengths)[row + 1] - (*lengths)[row]; ++i)
            to[static_cast<size_t>((*lengths)[row] + i)] = value(row, i);
      });
  const auto y = trial->output<float>("y", rows);
  const double useful = static_cast<double>(rows) * kLongest / 3;  // the mean of u^2 is a third
  trial->set_cost({.flops = 2 * useful, .bytes = 4 * useful * 0.9, .roof = Roof::kDramRead});
  trial->reference([=](const HostArrays& host) {
    for (size_t row = 0; row < host[y].size(); ++row) {
      double sum = 0;
      for (int64_t i = host[offsets][row]; i < host[offsets][row + 1]; ++i) {
        const double v = host[packed][static_cast<size_t>(i)];
        sum += v * v;
      }
      host[y][row] = static_cast<float>(sum);
    }
  });
  const gpu::Extent grid = {rows}, block = {kThreads};
  trial->variant("padded", [=](const Launch& at) {
    gpu::launch(
        {.kernel = "padded_rows", .grid = grid, .block = block}, at.stream(), padded_rows, at[padded], at[y]);
  });
  trial->variant("masked", [=](const Launch& at) {
    gpu::launch({.kernel = "masked_rows", .grid = grid, .block = block}, at.stream(), masked_rows, at[padded],
        at[offsets], at[y]);
  });
  trial->variant("packed", [=](const Launch& at) {
    gpu::launch({.kernel = "packed_rows", .grid = grid, .block = block}, at.stream(), packed_rows, at[packed],
        at[offsets], at[y]);
  });
  return trial;
}

const Registered kRagged({
    .id = "ch09/ragged-rows",
    .title = "Rows of different lengths, padded or packed",
    .question = "What does packing variable-length rows save over padding them to the longest?",
    .mechanism = "Padded rows of a third of the longest length on average read three times the bytes; "
                 "stopping at the length "
                 "saves the same reads as packing, which saves memory besides.",
    .claim = {.text = "Nested tensors make every byte fetched useful; the gain depends on the shapes."},
    .variants = {{.name = "padded", .idea = "every row as long as the longest"},
        {.name = "masked", .idea = "the padded layout, reading stops at the row's length"},
        {.name = "packed", .idea = "rows one after the other, with offsets"}},
    .sizes = {{.label = "512 rows", .dims = {512}}, {.label = "8192 rows", .dims = {8192}}},
    .quick = {{.label = "512 rows", .dims = {512}}},
    .tolerance = {.relative = 1e-4},
    .make = make_ragged,
});

}  // namespace
}  // namespace cheetah::lab
