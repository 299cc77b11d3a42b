// SPDX-License-Identifier: MIT
// y = (x - mean) * rsqrt(var + eps) * (w + offset) + bias, and without the mean for RMSNorm. One block per row;
// the row is read again from the caches instead of being kept, so that any width works.
// bytes  each row read and written once from memory    bound  memory
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/norm/cuda/rows.h"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 256;

struct Statistics {
  float mean = 0.f;
  float inverse = 1.f;  // of the deviation
};

template <class T>
__device__ Statistics statistics_of(const T* x, int64_t cols, bool centered, float eps) {
  __shared__ float scratch[kThreads / kWarpSize];
  Statistics result;
  const auto count = static_cast<float>(cols);
  if (centered) {
    float sum = 0.f;
    for (int64_t i = threadIdx.x; i < cols; i += kThreads) sum += widen(x[i]);
    result.mean = block_sum<kThreads>(sum, scratch) / count;
  }
  float squares = 0.f;
  for (int64_t i = threadIdx.x; i < cols; i += kThreads) {
    const float value = widen(x[i]) - result.mean;
    squares += value * value;
  }
  result.inverse = 1.f / sqrtf(block_sum<kThreads>(squares, scratch) / count + eps);
  return result;
}

struct Affine {
  const float* weight;
  const float* bias;
  float offset;
  __device__ float operator()(float value, const Statistics& statistics, int64_t i) const {
    return (value - statistics.mean) * statistics.inverse * (weight ? weight[i] + offset : 1.f) +
           (bias ? bias[i] : 0.f);
  }
};

template <class T>
__global__ __launch_bounds__(kThreads) void norm_row(const NormArgs<T> args, bool centered) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int64_t part = blockIdx.y * args.part_stride;
  const T* x = args.x + blockIdx.x * args.x_stride + part;
  T* y = args.y + blockIdx.x * args.y_stride + part;
  const Statistics statistics = statistics_of(x, args.cols, centered, args.eps);
  const Affine affine{args.weight, args.bias, args.weight_offset};
  for (int64_t i = threadIdx.x; i < args.cols; i += kThreads)
    y[i] = narrow<T>(affine(widen(x[i]), statistics, i));
}

// A thread meets only the columns it wrote itself.
template <class T>
__global__ __launch_bounds__(kThreads) void add_and_norm_row(const AddAndNormArgs<T> args) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const T* branch = args.branch + blockIdx.x * args.cols;
  T* x = args.x + blockIdx.x * args.cols;
  Statistics of_branch;
  if (args.post_norm) of_branch = statistics_of(branch, args.cols, args.centered, args.eps);
  const Affine branch_affine{args.branch_weight, args.branch_bias, args.weight_offset};
  for (int64_t i = threadIdx.x; i < args.cols; i += kThreads) {
    const float value = widen(branch[i]);
    x[i] =
        narrow<T>(widen(x[i]) + args.scale * (args.post_norm ? branch_affine(value, of_branch, i) : value));
  }
  if (!args.y) return;
  const Statistics statistics = statistics_of(x, args.cols, args.centered, args.eps);
  const Affine affine{args.weight, args.bias, args.weight_offset};
  for (int64_t i = threadIdx.x; i < args.cols; i += kThreads)
    args.y[blockIdx.x * args.cols + i] = narrow<T>(affine(widen(x[i]), statistics, i));
}

template <class T>
void norm(const NormArgs<T>& args, bool centered, Stream& stream) {
  if (norm_rows_fits(args)) return norm_rows(args, centered, stream);
  launch({.kernel = centered ? "layer_norm_any" : "rms_norm_any",
             .grid = {args.rows, args.parts},
             .block = {kThreads},
             .overlaps_previous = true,
             .numbers = {args.rows, args.parts, args.cols}},
      stream, norm_row<T>, args, centered);
}

}  // namespace

template <class T>
void rms_norm(const NormArgs<T>& args, Stream& stream) {
  norm(args, false, stream);
}

template <class T>
void layer_norm(const NormArgs<T>& args, Stream& stream) {
  norm(args, true, stream);
}

template <class T>
void add_and_norm(const AddAndNormArgs<T>& args, Stream& stream) {
  if (add_and_norm_rows_fits(args)) return add_and_norm_rows(args, stream);
  launch({.kernel = "add_and_norm_any",
             .grid = {args.rows},
             .block = {kThreads},
             .overlaps_previous = true,
             .numbers = {args.rows, args.cols, args.post_norm}},
      stream, add_and_norm_row<T>, args);
}

#define CHEETAH_INSTANTIATE(T)                              \
  template void rms_norm<T>(const NormArgs<T>&, Stream&);   \
  template void layer_norm<T>(const NormArgs<T>&, Stream&); \
  template void add_and_norm<T>(const AddAndNormArgs<T>&, Stream&)
CHEETAH_INSTANTIATE(float);
CHEETAH_INSTANTIATE(Bf16);
#undef CHEETAH_INSTANTIATE

}  // namespace cheetah::gpu
