// SPDX-License-Identifier: MIT
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

__device__ float power_of_two(float exponent) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(exponent));
  return result;
}

// A warp's maximum, in powers of two, and the sum about it.
struct Part {
  float peak, sum;
};
// Of all warps; by every thread, after a barrier.
template <int kWarps>
__device__ Part join(const Part (&parts)[kWarps]) {
  const int lane = threadIdx.x % kWarpSize;
  Part all = lane < kWarps ? parts[lane] : Part{never(), 0.f};
  const float mine = all.peak;
#pragma unroll
  for (int step = kWarps / 2; step > 0; step /= 2)
    all.peak = fmaxf(all.peak, __shfl_xor_sync(kWholeWarp, all.peak, step));
  all.sum = mine == never() ? 0.f : all.sum * power_of_two(mine - all.peak);
#pragma unroll
  for (int step = kWarps / 2; step > 0; step /= 2) all.sum += __shfl_xor_sync(kWholeWarp, all.sum, step);
  return {__shfl_sync(kWholeWarp, all.peak, 0), __shfl_sync(kWholeWarp, all.sum, 0)};
}

// Turns the row into its softmax. Each warp takes powers about its own maximum, so that the block meets once
// a row.
template <class Tile>
__device__ void weigh(Row<Tile>& row, int cols, Part (&parts)[Tile::kThreads / kWarpSize]) {
  float peak = never();
#pragma unroll
  for (int p = 0; p < Tile::kPieces; ++p) {
    if (column<Tile>(p) >= cols) continue;
#pragma unroll
    for (int i = 0; i < Tile::kEach; ++i) peak = fmaxf(peak, row.numbers[p * Tile::kEach + i]);
  }
  peak = warp_max(peak) * kLog2E;
  const float about = peak == never() ? 0.f : peak;
  float sum = 0.f;
#pragma unroll
  for (int p = 0; p < Tile::kPieces; ++p) {
    if (column<Tile>(p) >= cols) continue;
#pragma unroll
    for (int i = 0; i < Tile::kEach; ++i) {
      float& number = row.numbers[p * Tile::kEach + i];
      number = power_of_two(fmaf(number, kLog2E, -about));
      sum += number;
    }
  }
  sum = warp_sum(sum);
  if (threadIdx.x % kWarpSize == 0) parts[threadIdx.x / kWarpSize] = {peak, sum};
  __syncthreads();
  const Part all = join(parts);
  const float factor = (peak == never() ? 0.f : power_of_two(peak - all.peak)) / all.sum;
#pragma unroll
  for (float& number : row.numbers) number *= factor;
}

// A fifth block of 256 threads hides the others' meetings: 0.84 to 0.91 of a copy at 8192 x 4096 BF16 (H200).
template <class Tile>
constexpr int kBlocks = Tile::kThreads == 256 ? 5 : Tile::kBlocksPerMultiprocessor;

template <class Tile>
__global__ __launch_bounds__(Tile::kThreads, kBlocks<Tile>) void softmax_kept_rows(
    const SoftmaxArgs<typename Tile::Number> args) {
  __shared__ Part parts[2][Tile::kThreads / kWarpSize];  // the next row's are written while these are read
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const auto cols = static_cast<int>(args.cols);
  int turn = 0;
  uint4 raw[Tile::kPieces];
  fetch<Tile>(args.x + blockIdx.x * args.x_stride, cols, raw);
  for (int64_t at = blockIdx.x; at < args.rows; at += gridDim.x) {
    Row<Tile> row;
    widen_row<Tile>(raw, row);
    if (at + gridDim.x < args.rows) fetch<Tile>(args.x + (at + gridDim.x) * args.x_stride, cols, raw);
    weigh<Tile>(row, cols, parts[turn]);
    turn ^= 1;
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
               .grid = {std::min(args.rows, int64_t{stream.device().num_sms} * kBlocks<Tile>)},
               .block = {Tile::kThreads},
               .overlaps_previous = true,
               .numbers = {args.rows, args.cols}},
        stream, softmax_kept_rows<Tile>, args);
  });
}

template void softmax<float>(const SoftmaxArgs<float>&, Stream&);
template void softmax<Bf16>(const SoftmaxArgs<Bf16>&, Stream&);

}  // namespace cheetah::gpu
