// SPDX-License-Identifier: MIT
// A stored matrix as BF16: a thread writes eight neighbouring numbers.
// bytes  W once as stored, twice the numbers written    bound  memory for FP8, decoding for blocks of four
// bits
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/gemm/cuda/hopper_blocks.cuh"
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

constexpr int kNumbers = 32;  // of a thread: one block, or an eighth of a large one
constexpr int kLinePieces = kNumbers / kEach;

// 32 numbers, put where their thread's place is after the others' of the warp have been. Neighbouring
// threads' pieces change places so that no bank is asked twice.
__device__ inline int place_of(int thread, int piece) {
  return thread * kLinePieces + (piece ^ (thread / 2 % kLinePieces));
}

template <DType kType>
__global__ __launch_bounds__(kThreads) void widen_blocks(const WidenTask task) {
  using F = blocks::Format<kType>;
  constexpr int64_t kSubBlocks = F::kElements / kNumbers;
  __shared__ uint4 staged[kThreads * kLinePieces];
  ptx::wait_for_dependencies();  // until then the product before may still read y
  const int64_t block = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x,
                end = task.pieces / kLinePieces;
  const int lane = threadIdx.x % kWarpSize;
  uint4* own = staged + (threadIdx.x - lane) * kLinePieces;
  if (block < end) {
    const int64_t across = task.cols / kNumbers, in_row = block % across;
    const auto* row = reinterpret_cast<const uint8_t*>(task.w + block / across * task.row_bytes);
    const blocks::Levels levels =
        F::read(row + in_row / kSubBlocks * F::kBytes, static_cast<unsigned>(in_row % kSubBlocks));
    float numbers[kNumbers];
#pragma unroll
    for (int i = 0; i < kNumbers; ++i) {
      const int part = i * F::kParts / kNumbers;
      const uint32_t level = levels.words[i / 4] >> (8 * (i % 4));
      const float value = kType == DType::kQ8_0 ? static_cast<float>(static_cast<int8_t>(level))
                                                : static_cast<float>(static_cast<uint8_t>(level));
      numbers[i] = fmaf(levels.scale[part], value, F::kOffset ? levels.offset[part] : 0.f);
    }
#pragma unroll
    for (int i = 0; i < kLinePieces; ++i) own[place_of(lane, i)] = narrow_piece<Bf16>(numbers + i * kEach);
  }
  __syncwarp();
  const int64_t first = (block - lane) * kLinePieces;
#pragma unroll
  for (int i = 0; i < kLinePieces; ++i) {
    const int at = i * kWarpSize + lane;
    if (first + at < task.pieces)
      reinterpret_cast<uint4*>(task.y)[first + at] = own[place_of(at / kLinePieces, at % kLinePieces)];
  }
}

__global__ __launch_bounds__(kThreads) void narrow_f32(const WidenTask task) {
  ptx::wait_for_dependencies();  // until then the product before may still read y
  const int64_t piece = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (piece >= task.pieces) return;
  float numbers[kEach];
  load_floats(reinterpret_cast<const float*>(task.w) + piece * kEach, numbers, kEach);
  *reinterpret_cast<uint4*>(task.y + piece * kEach) = narrow_piece<Bf16>(numbers);
}

// The kernel for a type in blocks; none: number by number. Blocks of 256 are read in 16 bytes.
using WidenKernel = void (*)(WidenTask);
WidenKernel blocks_kernel(const WeightMatrix& w) {
  switch (w.dtype) {
    case DType::kQ8_0:
      return widen_blocks<DType::kQ8_0>;
    case DType::kQ4_0:
      return widen_blocks<DType::kQ4_0>;
    case DType::kQ4_K:
      return reinterpret_cast<uintptr_t>(w.data) % 16 == 0 ? widen_blocks<DType::kQ4_K> : nullptr;
    case DType::kQ5_K:
      return reinterpret_cast<uintptr_t>(w.data) % 16 == 0 ? widen_blocks<DType::kQ5_K> : nullptr;
    case DType::kQ6_K:
      return widen_blocks<DType::kQ6_K>;
    default:
      return nullptr;
  }
}

}  // namespace

bool can_widen(DType dtype) { return dtype != DType::kF64 && dtype != DType::kF16 && dtype != DType::kBF16; }

void widen_rows(const WeightMatrix& w, int64_t first, int64_t count, Bf16* y, Stream& stream) {
  const int64_t bytes = row_bytes(w.dtype, w.cols), pieces = count * w.cols / kEach;
  const WidenKernel kernel = blocks_kernel(w);
  const bool is_f32 = w.dtype == DType::kF32 && reinterpret_cast<uintptr_t>(w.data) % 16 == 0;
  const int64_t threads = kernel ? pieces / kLinePieces : pieces;
  launch({.kernel = "widen_rows",
             .grid = {(threads + kThreads - 1) / kThreads},
             .block = {kThreads},
             .overlaps_previous = true,
             .numbers = {count, w.cols, static_cast<int64_t>(w.dtype)}},
      stream,
      kernel   ? kernel
      : is_f32 ? narrow_f32
               : widen_numbers,
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
