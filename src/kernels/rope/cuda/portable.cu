// (a, b) -> (a cos - b sin, b cos + a sin). One thread a pair, one block a token; sine and cosine are
// computed once for all heads. bytes  each rotated number read and written once    bound  memory
#include "gpu/launch.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/rope/rope_cuda.h"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 128;

template <class T>
__global__ __launch_bounds__(kThreads) void rotate_pairs(const RopeArgs<T> args) {
  const bool halves = args.layout == RopeLayout::kHalves;
  const auto position = static_cast<float>(args.positions[blockIdx.x]);
  for (int64_t i = threadIdx.x; i < args.half; i += kThreads) {
    float sine, cosine;
    sincosf(__fmul_rn(position, args.inv_freq[i]), &sine, &cosine);  // the angle is rounded, as in training
    sine *= args.magnitude;
    cosine *= args.magnitude;
    T* x = args.x + blockIdx.x * args.token_stride;
    for (int64_t head = blockIdx.y; head < args.heads; head += gridDim.y) {
      T& first = x[head * args.head_stride + (halves ? i : 2 * i)];
      T& second = x[head * args.head_stride + (halves ? i + args.half : 2 * i + 1)];
      const float a = widen(first), b = widen(second);
      first = narrow<T>(a * cosine - b * sine);
      second = narrow<T>(b * cosine + a * sine);
    }
  }
}

}  // namespace

template <class T>
void rope(const RopeArgs<T>& args, Stream& stream) {
  constexpr int64_t kHeadsEach = 8;
  if (args.half == 0) return;
  launch({.kernel = "rope",
          .grid = {args.tokens, (args.heads + kHeadsEach - 1) / kHeadsEach},
          .block = {kThreads},
          .numbers = {args.tokens, args.heads, args.half}},
         stream, rotate_pairs<T>, args);
}

template void rope<float>(const RopeArgs<float>&, Stream&);
template void rope<Bf16>(const RopeArgs<Bf16>&, Stream&);

}  // namespace cheetah::gpu
