// A stored matrix as BF16: a thread writes eight neighbouring numbers.
// bytes  W once as stored, twice the numbers written    bound  memory for FP8, decoding for blocks of four
// bits
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/cuda/pieces.cuh"
#include "kernels/gemm/cuda/widen.h"
#include "kernels/quant/cuda/weight_value.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 8;

struct WidenTask {
  const std::byte* w;
  int64_t first, row_bytes, cols, pieces;  // the first row's number, pieces in all
  DType dtype;
  BlockShape shape;
  WeightScales scales;  // of the whole matrix
  Bf16* y;
};

// Not followed by an early start: what comes next reads this as weights, which it does not wait for.
__global__ __launch_bounds__(kThreads) void widen_numbers(const WidenTask task) {
  ptx::wait_for_dependencies();  // until then the product before may still read y
  const int64_t piece = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (piece >= task.pieces) return;
  const int64_t row = piece * kEach / task.cols, col = piece * kEach % task.cols;
  const std::byte* from = task.w + row * task.row_bytes;
  float numbers[kEach];
  if (task.dtype == DType::kF8E4M3) {
    const uint2 raw = *reinterpret_cast<const uint2*>(from + col);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      numbers[i] = f8_e4m3(static_cast<uint8_t>((i < 4 ? raw.x : raw.y) >> (8 * (i % 4))));
  } else {
#pragma unroll
    for (int i = 0; i < kEach; ++i) numbers[i] = weight_value(task.dtype, task.shape, from, col + i);
  }
  if (task.scales.data) {
    const int64_t across = (task.cols + task.scales.cols - 1) / task.scales.cols;
    const float* scales = task.scales.data + (task.first + row) / task.scales.rows * across;
#pragma unroll
    for (int i = 0; i < kEach; ++i) numbers[i] *= scales[(col + i) / task.scales.cols];
  }
  *reinterpret_cast<uint4*>(task.y + piece * kEach) = narrow_piece<Bf16>(numbers);
}

}  // namespace

bool can_widen(DType dtype) {
  return dtype != DType::kF64 && dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16;
}

void widen_rows(const WeightMatrix& w, int64_t first, int64_t count, Bf16* y, Stream& stream) {
  const int64_t bytes = row_bytes(w.dtype, w.cols), pieces = count * w.cols / kEach;
  launch({.kernel = "widen_rows",
          .grid = {(pieces + kThreads - 1) / kThreads},
          .block = {kThreads},
          .overlaps_previous = true,
          .numbers = {count, w.cols, static_cast<int64_t>(w.dtype)}},
         stream, widen_numbers,
         WidenTask{.w = w.data + first * bytes,
                   .first = first,
                   .row_bytes = bytes,
                   .cols = w.cols,
                   .pieces = pieces,
                   .dtype = w.dtype,
                   .shape = block_shape(w.dtype),
                   .scales = w.scales,
                   .y = y});
}

}  // namespace cheetah::gpu
