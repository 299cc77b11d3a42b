// SPDX-License-Identifier: MIT
// (a, b) -> (a cos - b sin, b cos + a sin). One thread per pair, one block per token; sine and cosine are
// computed once for all heads.
// bytes  each rotated number read and written once    bound  memory
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/rope/cuda/rotation.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 128;

template <class T>
__global__ __launch_bounds__(kThreads) void rotate_pairs(const RopeArgs<T> args) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int64_t half = args.angles.half;
  const bool halves = args.angles.layout == RopeLayout::kHalves;
  const auto position = static_cast<float>(args.positions[blockIdx.x]);
  for (int64_t i = threadIdx.x; i < half; i += kThreads) {
    const float2 rotation = rotation_of(args.angles, blockIdx.x, position, i);
    T* x = args.x + blockIdx.x * args.token_stride;
    for (int64_t head = blockIdx.y; head < args.heads; head += gridDim.y) {
      T& first = x[head * args.head_stride + (halves ? i : 2 * i)];
      T& second = x[head * args.head_stride + (halves ? i + half : 2 * i + 1)];
      const float2 result = rotated(widen(first), widen(second), rotation);
      first = narrow<T>(result.x);
      second = narrow<T>(result.y);
    }
  }
}

}  // namespace

template <class T>
void rope(const RopeArgs<T>& args, Stream& stream) {
  constexpr int64_t kHeadsEach = 8;
  if (args.angles.half == 0) return;
  launch({.kernel = "rope",
             .grid = {args.tokens, (args.heads + kHeadsEach - 1) / kHeadsEach},
             .block = {kThreads},
             .overlaps_previous = true,
             .numbers = {args.tokens, args.heads, args.angles.half}},
      stream, rotate_pairs<T>, args);
}

template void rope<float>(const RopeArgs<float>&, Stream&);
template void rope<Bf16>(const RopeArgs<Bf16>&, Stream&);

}  // namespace cheetah::gpu
