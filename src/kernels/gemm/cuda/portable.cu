// SPDX-License-Identifier: MIT
// y = x W^T + bias. A block computes 64 x 64 outputs from tiles of x and W in shared memory, 32 inputs at a
// time; W is widened to float as it is loaded, so that every weight type shares the arithmetic. bytes  W once
// per 64 rows of x, x once per 64 rows of W    flops  2 m n k bound  the float pipeline (no tensor cores) why
// right for every type, shape and card
#include "gpu/launch.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/gemm/cuda/portable.h"
#include "kernels/quant/cuda/weight_value.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kTile = 64;      // rows of x and of W
constexpr int kDepth = 32;     // inputs
constexpr int kThreads = 256;  // 16 x 16, each with 4 x 4 outputs
constexpr int kEach = 4;
constexpr int kPitch =
    kTile + 4;  // keeps 16-byte alignment and spreads the transposing stores over the banks

template <class X, class Y>
struct TileTask {
  const X* x;
  int64_t x_stride, x_step;
  int64_t m;
  const std::byte* w;                // the one matrix, or
  const std::byte* const* matrices;  // one each blockIdx.z
  WeightScales scales;
  const float* const* all_scales;
  const float* bias;
  const float* const* biases;
  int64_t rows, cols, row_bytes;
  DType dtype;
  BlockShape shape;
  const int32_t* offsets;
  bool gated;
  const Y* residual;
  int64_t residual_stride;
  Y* y;
  int64_t y_stride, y_step;

  // The row of W that column n of all tiles multiplies by: gated, each gate stands beside what it lets
  // through.
  __device__ int64_t w_row(int64_t n) const { return gated ? n / 2 + (n % 2) * (rows / 2) : n; }
};

// Picks the block's matrix and its rows of x and y.
template <class X, class Y>
__device__ void select(TileTask<X, Y>& task) {
  const unsigned e = blockIdx.z;
  if (!task.matrices) return;
  task.w = task.matrices[e];
  if (task.biases) task.bias = task.biases[e];
  if (task.all_scales) task.scales.data = task.all_scales[e];
  const int64_t first = task.offsets ? task.offsets[e] : 0;
  if (task.offsets) task.m = task.offsets[e + 1] - first;
  task.x += e * task.x_step + first * task.x_stride;
  task.y += e * task.y_step + first * task.y_stride;
}

struct AnyWeight {
  template <class Task>
  static __device__ float load(const Task& task, const std::byte* row, int64_t k) {
    const float value = weight_value(task.dtype, task.shape, row, k);
    if (!task.scales.data) return value;
    const int64_t at = (row - task.w) / task.row_bytes / task.scales.rows,
                  across = (task.cols + task.scales.cols - 1) / task.scales.cols;
    return value * task.scales.data[at * across + k / task.scales.cols];
  }
};
struct F32Weight {
  template <class Task>
  static __device__ float load(const Task&, const std::byte* row, int64_t k) {
    return reinterpret_cast<const float*>(row)[k];
  }
};
struct F16Weight {
  template <class Task>
  static __device__ float load(const Task&, const std::byte* row, int64_t k) {
    return __half2float(reinterpret_cast<const __half*>(row)[k]);
  }
};
struct Bf16Weight {
  template <class Task>
  static __device__ float load(const Task&, const std::byte* row, int64_t k) {
    return widen(reinterpret_cast<const Bf16*>(row)[k]);
  }
};

struct Tiles {
  alignas(16) float x[kDepth][kPitch];
  alignas(16) float w[kDepth][kPitch];
};

// Each thread brings 8 neighbouring inputs of one row of each tile; what lies outside is zero.
template <class Weight, class X, class Y>
__device__ void load_tiles(
    const TileTask<X, Y>& task, int64_t first_m, int64_t first_n, int64_t first_k, Tiles& tiles) {
  constexpr int kRun = kTile * kDepth / kThreads;
  const int row = static_cast<int>(threadIdx.x) / (kDepth / kRun);
  const int depth = static_cast<int>(threadIdx.x) % (kDepth / kRun) * kRun;
  const int64_t m = first_m + row, n = first_n + row;
  const X* x = task.x + m * task.x_stride;
  const std::byte* w = task.w + task.w_row(n) * task.row_bytes;
#pragma unroll
  for (int i = 0; i < kRun; ++i) {
    const int64_t k = first_k + depth + i;
    tiles.x[depth + i][row] = m < task.m && k < task.cols ? widen(x[k]) : 0.f;
    tiles.w[depth + i][row] = n < task.rows && k < task.cols ? Weight::load(task, w, k) : 0.f;
  }
}

__device__ inline void multiply_tiles(const Tiles& tiles, int m, int n, float (&sums)[kEach][kEach]) {
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    const float4 x4 = *reinterpret_cast<const float4*>(&tiles.x[k][m]);
    const float4 w4 = *reinterpret_cast<const float4*>(&tiles.w[k][n]);
    const float x[kEach] = {x4.x, x4.y, x4.z, x4.w}, w[kEach] = {w4.x, w4.y, w4.z, w4.w};
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int j = 0; j < kEach; ++j) sums[i][j] += x[i] * w[j];
  }
}

template <class X, class Y>
__device__ void store_sums(
    const TileTask<X, Y>& task, int64_t first_m, int64_t first_n, const float (&sums)[kEach][kEach]) {
  const int step = task.gated ? 2 : 1;
  const auto bias_of = [&](int64_t n) { return task.bias ? task.bias[task.w_row(n)] : 0.f; };
#pragma unroll
  for (int i = 0; i < kEach; ++i)
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      const int64_t row = first_m + i, n = first_n + j, output = n / step;
      if (row >= task.m || n >= task.rows || j % step != 0) continue;
      float value = sums[i][j] + bias_of(n);
      if (task.gated)
        value = value * (1.f / (1.f + expf(-value))) * (sums[i][(j + 1) % kEach] + bias_of(n + 1));
      if (task.residual) value += widen(task.residual[row * task.residual_stride + output]);
      task.y[row * task.y_stride + output] = narrow<Y>(value);
    }
}

template <class X, class Y, class Weight>
__global__ __launch_bounds__(kThreads) void gemm_tile(TileTask<X, Y> task) {
  __shared__ Tiles tiles;
  select(task);
  const int64_t first_m = static_cast<int64_t>(blockIdx.y) * kTile,
                first_n = static_cast<int64_t>(blockIdx.x) * kTile;
  if (first_m >= task.m) return;
  const int m = static_cast<int>(threadIdx.x) / 16 * kEach, n = static_cast<int>(threadIdx.x) % 16 * kEach;
  float sums[kEach][kEach] = {};
  for (int64_t k = 0; k < task.cols; k += kDepth) {
    load_tiles<Weight>(task, first_m, first_n, k, tiles);
    __syncthreads();
    multiply_tiles(tiles, m, n, sums);
    __syncthreads();
  }
  store_sums(task, first_m + m, first_n + n, sums);
}

template <class X, class Y>
void launch_tiles(const TileTask<X, Y>& task, int64_t matrices, Stream& stream) {
  const auto up = [](int64_t count) { return (count + kTile - 1) / kTile; };
  const LaunchConfig config{.kernel = "gemm_tile",
      .grid = {up(task.rows), up(task.m), matrices},
      .block = {kThreads},
      .numbers = {task.m, task.rows, task.cols, static_cast<int64_t>(task.dtype), matrices}};
  if (task.dtype == DType::kF32) return launch(config, stream, gemm_tile<X, Y, F32Weight>, task);
  if (task.dtype == DType::kF16) return launch(config, stream, gemm_tile<X, Y, F16Weight>, task);
  if (task.dtype == DType::kBF16) return launch(config, stream, gemm_tile<X, Y, Bf16Weight>, task);
  launch(config, stream, gemm_tile<X, Y, AnyWeight>, task);
}

}  // namespace

template <class X, class Y>
void gemm_portable(const GemmArgs<X, Y>& args, Stream& stream) {
  TileTask<X, Y> task{};
  task.x = args.x;
  task.x_stride = args.x_stride;
  task.m = args.m;
  task.w = args.w.data;
  task.scales = args.w.scales;
  task.bias = args.bias;
  task.rows = args.w.rows;
  task.cols = args.w.cols;
  task.row_bytes = row_bytes(args.w.dtype, args.w.cols);
  task.dtype = args.w.dtype;
  task.shape = block_shape(args.w.dtype);
  task.gated = args.gated;
  task.residual = args.residual;
  task.residual_stride = args.residual_stride;
  task.y = args.y;
  task.y_stride = args.y_stride;
  launch_tiles(task, 1, stream);
}

template <class X, class Y>
void grouped_gemm_portable(const GroupedGemmArgs<X, Y>& args, Stream& stream) {
  TileTask<X, Y> task{};
  task.x = args.x;
  task.x_stride = args.x_stride;
  task.x_step = args.x_step;
  task.m = args.rows;
  task.matrices = args.w.data;
  task.biases = args.w.biases;
  task.scales.rows = args.w.scale_rows;
  task.scales.cols = args.w.scale_cols;
  task.all_scales = args.w.scales;
  task.gated = args.gated;
  task.rows = args.w.rows;
  task.cols = args.w.cols;
  task.row_bytes = row_bytes(args.w.dtype, args.w.cols);
  task.dtype = args.w.dtype;
  task.shape = block_shape(args.w.dtype);
  task.offsets = args.offsets;
  task.y = args.y;
  task.y_stride = args.y_stride;
  task.y_step = args.y_step;
  launch_tiles(task, args.w.count, stream);
}

#define CHEETAH_INSTANTIATE(X, Y)                                    \
  template void gemm_portable<X, Y>(const GemmArgs<X, Y>&, Stream&); \
  template void grouped_gemm_portable<X, Y>(const GroupedGemmArgs<X, Y>&, Stream&)
CHEETAH_INSTANTIATE(float, float);
CHEETAH_INSTANTIATE(Bf16, Bf16);
CHEETAH_INSTANTIATE(Bf16, float);
#undef CHEETAH_INSTANTIATE

}  // namespace cheetah::gpu
