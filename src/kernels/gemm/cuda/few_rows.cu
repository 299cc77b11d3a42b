// SPDX-License-Identifier: MIT
// y = x W^T of few rows. A warp per row of W: its lanes take 16 bytes each, several times ahead, and multiply
// them by the same numbers of up to eight rows of x, which come from the caches.
//
// bytes  W once per eight rows of x    flops  2 m n k, float    bound  memory for one row or two
#include <cuda_fp16.h>

#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/gemm/cuda/few_rows.h"

namespace cheetah::gpu {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * kWarpSize, kMaxRows = 8;

template <class X, class Y>
struct Task {
  const X* x;
  int64_t x_stride, m;
  const std::byte* w;
  int64_t rows, cols;
  const float* bias;
  bool gated;
  const Y* residual;
  int64_t residual_stride;
  Y* y;
  int64_t y_stride, outputs;
};

template <DType kType>
inline constexpr int kEach = kType == DType::kF32 ? 4 : 8;  // numbers of 16 bytes

template <DType kType>
__device__ void widen_weights(const uint4& raw, float (&to)[kEach<kType>]) {
  if constexpr (kType == DType::kF16) {
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = __half22float2(*reinterpret_cast<const __half2*>(&words[i]));
      to[2 * i] = pair.x;
      to[2 * i + 1] = pair.y;
    }
  } else if constexpr (kType == DType::kF32) {
    widen_piece<float>(raw, to);
  } else {
    widen_piece<Bf16>(raw, to);
  }
}

template <int kCount, class X>
__device__ void load_x(const X* from, float (&to)[kCount]) {
  if constexpr (sizeof(X) * kCount == 8) {
    const uint2 raw = *reinterpret_cast<const uint2*>(from);
    to[0] = __uint_as_float(raw.x << 16);
    to[1] = __uint_as_float(raw.x & 0xFFFF0000u);
    to[2] = __uint_as_float(raw.y << 16);
    to[3] = __uint_as_float(raw.y & 0xFFFF0000u);
  } else {
    constexpr int kPiece = kPieceNumbers<X>;
#pragma unroll
    for (int i = 0; i < kCount; i += kPiece)
      widen_piece<X>(*reinterpret_cast<const uint4*>(from + i), to + i);
  }
}

// The sums of one row of W with kRows rows of x, in every lane.
template <DType kType, int kRows, class X, class Y>
__device__ void multiply_row(const Task<X, Y>& task, int64_t w_row, int64_t first, float (&sums)[kRows]) {
  constexpr int kN = kEach<kType>, kSize = 16 / kN, kAhead = kRows == 1 ? 8 : 4;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize, pieces = static_cast<int>(task.cols / kN);
  const auto* w = reinterpret_cast<const uint4*>(task.w + w_row * task.cols * kSize);
#pragma unroll
  for (float& sum : sums) sum = 0.f;
  for (int at = lane; at < pieces; at += kWarpSize * kAhead) {
    uint4 raw[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i)
      raw[i] = at + i * kWarpSize < pieces ? __ldg(w + at + i * kWarpSize) : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int piece = at + i * kWarpSize;
      if (piece >= pieces) break;
      float weights[kN];
      widen_weights<kType>(raw[i], weights);
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        if (kRows > 1 && first + r >= task.m) break;
        float numbers[kN];
        load_x(task.x + (first + r) * task.x_stride + piece * kN, numbers);
#pragma unroll
        for (int j = 0; j < kN; ++j) sums[r] = fmaf(weights[j], numbers[j], sums[r]);
      }
    }
  }
#pragma unroll
  for (float& sum : sums) sum = warp_sum(sum);
}

template <DType kType, int kRows, class X, class Y>
__global__ __launch_bounds__(kThreads) void multiply_few_rows(const Task<X, Y> task) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int64_t output = static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarpSize;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kRows;
  if (output >= task.outputs) return;
  float sums[kRows], up[kRows];
  multiply_row<kType, kRows>(task, output, first, sums);
  if (task.gated) multiply_row<kType, kRows>(task, output + task.outputs, first, up);
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {  // a lane per row of x
    const int64_t row = first + r;
    if (lane != r || row >= task.m) continue;
    float value = sums[r] + (task.bias ? task.bias[output] : 0.f);
    if (task.gated) {
      const float through = up[r] + (task.bias ? task.bias[output + task.outputs] : 0.f);
      value = value / (1.f + expf(-value)) * through;
    }
    if (task.residual) value += widen(task.residual[row * task.residual_stride + output]);
    task.y[row * task.y_stride + output] = narrow<Y>(value);
  }
}

template <DType kType, class X, class Y>
void launch_rows(const Task<X, Y>& task, Stream& stream) {
  const auto launch_with = [&](auto* kernel, int64_t rows) {
    launch({.kernel = "multiply_few_rows",
               .grid = {(task.outputs + kWarps - 1) / kWarps, (task.m + rows - 1) / rows},
               .block = {kThreads},
               .overlaps_previous = true,
               .numbers = {task.m, task.rows, task.cols, static_cast<int64_t>(kType)}},
        stream, kernel, task);
  };
  if (task.m == 1) return launch_with(multiply_few_rows<kType, 1, X, Y>, 1);
  if (task.m <= 4) return launch_with(multiply_few_rows<kType, 4, X, Y>, 4);
  launch_with(multiply_few_rows<kType, kMaxRows, X, Y>, kMaxRows);
}

}  // namespace

template <class X, class Y>
bool few_rows_fit(const GemmArgs<X, Y>& args, const DeviceInfo&) {
  const DType type = args.w.dtype;
  constexpr int64_t kPiece = 8;
  return (type == DType::kF32 || type == DType::kF16 || type == DType::kBF16) && args.w.cols > 0 &&
         args.w.cols % kPiece == 0 && args.x_stride % kPiece == 0 && in_pieces(args.x, args.x_stride) &&
         reinterpret_cast<uintptr_t>(args.w.data) % 16 == 0;
}

template <class X, class Y>
bool few_rows_pay(const GemmArgs<X, Y>& args, const DeviceInfo&) {
  // Its multiplications, not W's bytes, take the time from the third row on (H200).
  constexpr int64_t kFewRows = 2, kManyRows = 256, kSmallBytes = int64_t{4} << 20;  // that caches keep
  return args.m <= kFewRows ||
         (args.m <= kManyRows && args.w.rows * row_bytes(args.w.dtype, args.w.cols) <= kSmallBytes);
}

template <class X, class Y>
void gemm_few_rows(const GemmArgs<X, Y>& args, Stream& stream) {
  const Task<X, Y> task{.x = args.x,
      .x_stride = args.x_stride,
      .m = args.m,
      .w = args.w.data,
      .rows = args.w.rows,
      .cols = args.w.cols,
      .bias = args.bias,
      .gated = args.gated,
      .residual = args.residual,
      .residual_stride = args.residual_stride,
      .y = args.y,
      .y_stride = args.y_stride,
      .outputs = args.outputs()};
  if (args.w.dtype == DType::kF32) return launch_rows<DType::kF32>(task, stream);
  if (args.w.dtype == DType::kF16) return launch_rows<DType::kF16>(task, stream);
  launch_rows<DType::kBF16>(task, stream);
}

#define CHEETAH_INSTANTIATE(X, Y)                                             \
  template bool few_rows_fit<X, Y>(const GemmArgs<X, Y>&, const DeviceInfo&); \
  template bool few_rows_pay<X, Y>(const GemmArgs<X, Y>&, const DeviceInfo&); \
  template void gemm_few_rows<X, Y>(const GemmArgs<X, Y>&, Stream&)
CHEETAH_INSTANTIATE(float, float);
CHEETAH_INSTANTIATE(Bf16, Bf16);
CHEETAH_INSTANTIATE(Bf16, float);
#undef CHEETAH_INSTANTIATE

}  // namespace cheetah::gpu
