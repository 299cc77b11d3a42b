// SPDX-License-Identifier: MIT
// FP8: the skinny products, and rows of x made of BF16 for all of them.
#include "gpu/launch.cuh"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/gemm/cuda/hopper_skinny.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 256, kEach = 8;
constexpr float kLargest = 448.f;  // of E4M3

__device__ inline float largest_of(const uint4& raw) {
  float numbers[kEach], largest = 0.f;
  widen_piece<Bf16>(raw, numbers);
#pragma unroll
  for (const float number : numbers) largest = fmaxf(largest, fabsf(number));
  return largest;
}

__device__ inline uint32_t narrow_four(const float* from) {
  uint16_t low, high;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(low) : "f"(from[1]), "f"(from[0]));
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(high) : "f"(from[3]), "f"(from[2]));
  return low | static_cast<uint32_t>(high) << 16;
}

// A block per row, read twice: the second time from the caches.
__global__ __launch_bounds__(kThreads) void narrow_row(const NarrowRowsArgs args) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  __shared__ float scratch[kThreads / kWarpSize];
  const auto* x = reinterpret_cast<const uint4*>(args.x + blockIdx.x * args.x_stride);
  const int pieces = static_cast<int>(args.k / kEach);
  float largest = 0.f;
  for (int i = threadIdx.x; i < pieces; i += kThreads) largest = fmaxf(largest, largest_of(x[i]));
  // Never so small that its inverse is not a number.
  largest = fmaxf(block_max<kThreads>(largest, scratch), 1e-30f);
  const float factor = kLargest / largest;
  auto* y = reinterpret_cast<uint2*>(args.y + blockIdx.x * args.k);
  for (int i = threadIdx.x; i < pieces; i += kThreads) {
    float numbers[kEach];
    widen_piece<Bf16>(x[i], numbers);
#pragma unroll
    for (float& number : numbers) number *= factor;
    y[i] = make_uint2(narrow_four(numbers), narrow_four(numbers + 4));
  }
  if (threadIdx.x == 0) args.scales[blockIdx.x] = largest / kLargest;
}

}  // namespace

void narrow_rows(const NarrowRowsArgs& args, Stream& stream) {
  launch({.kernel = "narrow_rows",
             .grid = {args.m},
             .block = {kThreads},
             .overlaps_previous = true,
             .numbers = {args.m, args.k}},
      stream, narrow_row, args);
}

void hopper_skinny_fp8_gemm(const HopperGemmArgs& args, Stream& stream) {
  if (args.m <= 16) return skinny::launch_product<wgmma::Input::kE4m3, 16>(args, stream);
  skinny::launch_product<wgmma::Input::kE4m3, 64>(args, stream);
}

}  // namespace cheetah::gpu
