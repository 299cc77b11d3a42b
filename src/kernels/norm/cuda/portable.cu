// y = (x - mean) * rsqrt(var + eps) * (w + offset) + bias, and without the mean for RMSNorm. One block a row;
// the row is read again from the caches instead of being kept, so that any width works. bytes  read and write
// each row once from memory    bound  memory
#include "gpu/launch.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/norm/norm_cuda.h"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 256;

template <class T, bool kCentered>
__global__ __launch_bounds__(kThreads) void norm_row(const NormArgs<T> args) {
  __shared__ float scratch[kThreads / kWarpSize];
  const int64_t part = blockIdx.y * args.part_stride;
  const T* x = args.x + blockIdx.x * args.x_stride + part;
  T* y = args.y + blockIdx.x * args.y_stride + part;
  const auto cols = static_cast<float>(args.cols);
  float mean = 0.f;
  if constexpr (kCentered) {
    float sum = 0.f;
    for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) sum += widen(x[i]);
    mean = block_sum<kThreads>(sum, scratch) / cols;
  }
  float squares = 0.f;
  for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
    const float value = widen(x[i]) - mean;
    squares += value * value;
  }
  const float inverse = 1.f / sqrtf(block_sum<kThreads>(squares, scratch) / cols + args.eps);
  for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
    const float weight = args.weight ? args.weight[i] + args.weight_offset : 1.f;
    const float bias = args.bias ? args.bias[i] : 0.f;
    y[i] = narrow<T>((widen(x[i]) - mean) * inverse * weight + bias);
  }
}

}  // namespace

template <class T>
void rms_norm(const NormArgs<T>& args, Stream& stream) {
  launch({.kernel = "rms_norm",
          .grid = {args.rows, args.parts},
          .block = {kThreads},
          .numbers = {args.rows, args.parts, args.cols}},
         stream, norm_row<T, false>, args);
}

template <class T>
void layer_norm(const NormArgs<T>& args, Stream& stream) {
  launch({.kernel = "layer_norm",
          .grid = {args.rows, args.parts},
          .block = {kThreads},
          .numbers = {args.rows, args.parts, args.cols}},
         stream, norm_row<T, true>, args);
}

template void rms_norm<float>(const NormArgs<float>&, Stream&);
template void rms_norm<Bf16>(const NormArgs<Bf16>&, Stream&);
template void layer_norm<float>(const NormArgs<float>&, Stream&);
template void layer_norm<Bf16>(const NormArgs<Bf16>&, Stream&);

}  // namespace cheetah::gpu
