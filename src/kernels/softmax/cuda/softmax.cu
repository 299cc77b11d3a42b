// y = exp(x - max) / sum. Rows that fit stay in a block's registers, the next one on its way while this one
// is summed up; longer ones are read twice, the second time from the caches where they fit there. bytes  each
// row read and written once    bound  memory
#include <algorithm>

#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/softmax/softmax_cuda.h"

namespace cheetah::gpu {
namespace {

constexpr float kLog2E = 1.4426950408889634f;

__device__ float never() { return __int_as_float(static_cast<int>(0xFF800000u)); }  // minus infinity

// Turns the row into its softmax.
template <class Tile>
__device__ void weigh(Row<Tile>& row, int cols, float* scratch) {
  float peak = never();
#pragma unroll
  for (int p = 0; p < Tile::kPieces; ++p) {
    if (column<Tile>(p) >= cols) continue;
#pragma unroll
    for (int i = 0; i < Tile::kEach; ++i) peak = fmaxf(peak, row.numbers[p * Tile::kEach + i]);
  }
  peak = block_max<Tile::kThreads>(peak, scratch);
  float sum = 0.f;
#pragma unroll
  for (int p = 0; p < Tile::kPieces; ++p) {
    if (column<Tile>(p) >= cols) continue;
#pragma unroll
    for (int i = 0; i < Tile::kEach; ++i) {
      float& number = row.numbers[p * Tile::kEach + i];
      number = exp2f((number - peak) * kLog2E);
      sum += number;
    }
  }
  const float inverse = 1.f / block_sum<Tile::kThreads>(sum, scratch);
#pragma unroll
  for (float& number : row.numbers) number *= inverse;
}

template <class Tile>
__global__ __launch_bounds__(Tile::kThreads, Tile::kBlocksPerMultiprocessor) void softmax_kept_rows(
    const SoftmaxArgs<typename Tile::Number> args) {
  __shared__ float scratch[Tile::kThreads / kWarpSize];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const auto cols = static_cast<int>(args.cols);
  uint4 raw[Tile::kPieces];
  fetch<Tile>(args.x + blockIdx.x * args.x_stride, cols, raw);
  for (int64_t at = blockIdx.x; at < args.rows; at += gridDim.x) {
    Row<Tile> row;
    widen_row<Tile>(raw, row);
    if (at + gridDim.x < args.rows) fetch<Tile>(args.x + (at + gridDim.x) * args.x_stride, cols, raw);
    weigh<Tile>(row, cols, scratch);
    store<Tile>(row, args.y + at * args.y_stride, cols);
  }
}

constexpr int kThreads = 512;

template <class T>
__global__ __launch_bounds__(kThreads) void softmax_any_row(const SoftmaxArgs<T> args) {
  __shared__ float scratch[kThreads / kWarpSize];
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const T* x = args.x + blockIdx.x * args.x_stride;
  T* y = args.y + blockIdx.x * args.y_stride;
  float mine = never(), sum = 0.f;  // about this thread's own maximum: one pass
  for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
    const float value = widen(x[i]), higher = fmaxf(mine, value);
    if (higher == never()) continue;
    sum = sum * exp2f((mine - higher) * kLog2E) + exp2f((value - higher) * kLog2E);
    mine = higher;
  }
  const float peak = block_max<kThreads>(mine, scratch);
  const float scaled = mine == never() ? 0.f : sum * exp2f((mine - peak) * kLog2E);
  const float inverse = 1.f / block_sum<kThreads>(scaled, scratch);
  for (int64_t i = threadIdx.x; i < args.cols; i += kThreads)
    y[i] = narrow<T>(exp2f((widen(x[i]) - peak) * kLog2E) * inverse);
}

template <class T>
bool fits_registers(const SoftmaxArgs<T>& args) {
  return args.cols <= kMaxRowCols<T> && args.cols % kPieceNumbers<T> == 0 &&
         in_pieces(args.x, args.x_stride) && in_pieces(args.y, args.y_stride);
}

}  // namespace

template <class T>
void softmax(const SoftmaxArgs<T>& args, Stream& stream) {
  if (args.rows == 0 || args.cols == 0) return;
  if (!fits_registers(args))
    return launch({.kernel = "softmax_any",
                   .grid = {args.rows},
                   .block = {kThreads},
                   .overlaps_previous = true,
                   .numbers = {args.rows, args.cols}},
                  stream, softmax_any_row<T>, args);
  with_tile<T>(args.cols, [&](auto tile) {
    using Tile = decltype(tile);
    launch({.kernel = "softmax",
            .grid = {std::min(args.rows, resident_blocks<Tile>(stream.device()))},
            .block = {Tile::kThreads},
            .overlaps_previous = true,
            .numbers = {args.rows, args.cols}},
           stream, softmax_kept_rows<Tile>, args);
  });
}

template void softmax<float>(const SoftmaxArgs<float>&, Stream&);
template void softmax<Bf16>(const SoftmaxArgs<Bf16>&, Stream&);

}  // namespace cheetah::gpu
