// SPDX-License-Identifier: MIT
// F16: the skinny products, and rows of x made of BF16 for all of them.
#include "gpu/launch.cuh"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/gemm/cuda/hopper_skinny.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 256, kEach = 8;

// The exponent of the power of two by which a row is multiplied: its largest number comes to lie between 2^14
// and 2^15. A power of two changes no digit, and F16 has more of them than BF16: a number loses digits only
// where it is 2^-28 of the row's largest or less.
__device__ inline int shift_of(float largest) {
  constexpr int kTop = 14, kLeast = -100;
  const int exponent = (__float_as_int(largest) >> 23 & 0xFF) - 127;
  return kTop - max(exponent, kLeast);
}
__device__ inline float power_of_two(int exponent) { return __int_as_float((exponent + 127) << 23); }

// A block per row, read twice: the second time from the caches.
__global__ __launch_bounds__(kThreads) void narrow_row_to_f16(const NarrowRowsArgs args) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  __shared__ float scratch[kThreads / kWarpSize];
  const auto* x = reinterpret_cast<const uint4*>(args.x + blockIdx.x * args.x_stride);
  const int pieces = static_cast<int>(args.k / kEach);
  float largest = 0.f;
  for (int i = threadIdx.x; i < pieces; i += kThreads) {
    float numbers[kEach];
    widen_piece<Bf16>(x[i], numbers);
#pragma unroll
    for (const float number : numbers) largest = fmaxf(largest, fabsf(number));
  }
  const int shift = shift_of(block_max<kThreads>(largest, scratch));
  const float factor = power_of_two(shift);
  auto* y = reinterpret_cast<uint4*>(args.y) + blockIdx.x * args.k / kEach;
  for (int i = threadIdx.x; i < pieces; i += kThreads) {
    float numbers[kEach];
    widen_piece<Bf16>(x[i], numbers);
    uint32_t words[kEach / 2];
#pragma unroll
    for (int j = 0; j < kEach / 2; ++j)
      words[j] = pack_pair<wgmma::Input::kF16>(numbers[2 * j] * factor, numbers[2 * j + 1] * factor);
    y[i] = make_uint4(words[0], words[1], words[2], words[3]);
  }
  if (threadIdx.x == 0) args.scales[blockIdx.x] = power_of_two(-shift);
}

}  // namespace

void narrow_rows_to_f16(const NarrowRowsArgs& args, Stream& stream) {
  launch({.kernel = "narrow_rows_to_f16",
             .grid = {args.m},
             .block = {kThreads},
             .overlaps_previous = true,
             .numbers = {args.m, args.k}},
      stream, narrow_row_to_f16, args);
}

void hopper_skinny_f16_gemm(const HopperGemmArgs& args, Stream& stream) {
  constexpr wgmma::Input kF16 = wgmma::Input::kF16;
  if (args.m <= 16) return skinny::launch_product<kF16, 16>(args, stream);
  if (args.m <= 32) return skinny::launch_product<kF16, 32>(args, stream);
  skinny::launch_product<kF16, 64>(args, stream);
}

}  // namespace cheetah::gpu
