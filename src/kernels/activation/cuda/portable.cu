// Element by element, one thread each.
// bytes  every operand once    bound  memory
#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/activation/activation_cuda.h"
#include "kernels/cuda/numbers.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 256;

__device__ float sigmoid(float x) { return 1.f / (1.f + expf(-x)); }

__device__ float activation_of(Activation kind, float x) {
  constexpr float kSqrt2OverPi = 0.7978845608f, kSqrtHalf = 0.7071067812f;
  switch (kind) {
    case Activation::kSilu:
      return x * sigmoid(x);
    case Activation::kGeluTanh:
      return 0.5f * x * (1.f + tanhf(kSqrt2OverPi * (x + 0.044715f * x * x * x)));
    case Activation::kGeluErf:
      return 0.5f * x * erfcf(-x * kSqrtHalf);
    case Activation::kQuickGelu:
      return x * sigmoid(1.702f * x);
    case Activation::kRelu:
      break;
  }
  return x < 0.f ? 0.f : x;
}

__device__ int64_t element_index() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }

template <class T>
__global__ __launch_bounds__(kThreads) void activate_elements(Activation kind, T* x, int64_t count) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int64_t i = element_index();
  if (i < count) x[i] = narrow<T>(activation_of(kind, widen(x[i])));
}

template <class T>
__global__ __launch_bounds__(kThreads) void gate_elements(const GatedArgs<T> args) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int64_t i = element_index(), row = i / args.cols, col = i % args.cols;
  if (row >= args.rows) return;
  const float gate = widen(args.gate[row * args.gate_stride + col]),
              up = widen(args.up[row * args.up_stride + col]);
  args.y[row * args.y_stride + col] = narrow<T>(activation_of(args.kind, gate) * up);
}

template <class T>
__global__ __launch_bounds__(kThreads) void clamp_and_gate(const ClampedSwigluArgs<T> args) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const GatedArgs<T>& rows = args.rows;
  const int64_t i = element_index(), row = i / rows.cols, col = i % rows.cols;
  if (row >= rows.rows) return;
  const float gate = fminf(widen(rows.gate[row * rows.gate_stride + col]), args.limit);
  const float up = fminf(fmaxf(widen(rows.up[row * rows.up_stride + col]), -args.limit), args.limit);
  rows.y[row * rows.y_stride + col] = narrow<T>((up + 1.f) * gate * sigmoid(args.alpha * gate));
}

template <class T>
__global__ __launch_bounds__(kThreads) void add_elements(const T* x, float scale, T* y, int64_t count) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int64_t i = element_index();
  if (i < count) y[i] = narrow<T>(widen(y[i]) + scale * widen(x[i]));
}

template <class X, class Y>
__global__ __launch_bounds__(kThreads) void copy_elements(const CopyRowsArgs<X, Y> args) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int64_t i = element_index(), row = i / args.cols, col = i % args.cols;
  if (row >= args.rows) return;
  const int64_t from = args.source ? args.source[row] / args.divisor : row;
  args.y[row * args.y_stride + col] = narrow<Y>(widen(args.x[from * args.x_stride + col]));
}

__global__ __launch_bounds__(kThreads) void scale_and_cap(float* logits, int64_t count, float scale,
                                                          float cap) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int64_t i = element_index();
  if (i >= count) return;
  const float logit = logits[i] * scale;
  logits[i] = cap != 0.f ? cap * tanhf(logit / cap) : logit;
}

LaunchConfig per_element(const char* kernel, int64_t count) {
  return {.kernel = kernel,
          .grid = {(count + kThreads - 1) / kThreads},
          .block = {kThreads},
          .overlaps_previous = true};
}

}  // namespace

template <class T>
void activate(Activation kind, T* x, int64_t count, Stream& stream) {
  launch(per_element("activate", count), stream, activate_elements<T>, kind, x, count);
}

template <class T>
void gated_activation(const GatedArgs<T>& args, Stream& stream) {
  launch(per_element("gated_activation", args.rows * args.cols), stream, gate_elements<T>, args);
}

template <class T>
void clamped_swiglu(const ClampedSwigluArgs<T>& args, Stream& stream) {
  launch(per_element("clamped_swiglu", args.rows.rows * args.rows.cols), stream, clamp_and_gate<T>, args);
}

template <class T>
void add_scaled(const T* x, float scale, T* y, int64_t count, Stream& stream) {
  launch(per_element("add_scaled", count), stream, add_elements<T>, x, scale, y, count);
}

template <class X, class Y>
void copy_rows(const CopyRowsArgs<X, Y>& args, Stream& stream) {
  launch(per_element("copy_rows", args.rows * args.cols), stream, copy_elements<X, Y>, args);
}

void finish_logits(float* logits, int64_t count, float scale, float cap, Stream& stream) {
  if (scale == 1.f && cap == 0.f) return;
  launch(per_element("finish_logits", count), stream, scale_and_cap, logits, count, scale, cap);
}

#define CHEETAH_INSTANTIATE(T)                                           \
  template void activate<T>(Activation, T*, int64_t, Stream&);           \
  template void gated_activation<T>(const GatedArgs<T>&, Stream&);       \
  template void clamped_swiglu<T>(const ClampedSwigluArgs<T>&, Stream&); \
  template void add_scaled<T>(const T*, float, T*, int64_t, Stream&)
CHEETAH_INSTANTIATE(float);
CHEETAH_INSTANTIATE(Bf16);
#undef CHEETAH_INSTANTIATE
template void copy_rows<float, float>(const CopyRowsArgs<float, float>&, Stream&);
template void copy_rows<Bf16, Bf16>(const CopyRowsArgs<Bf16, Bf16>&, Stream&);
template void copy_rows<Bf16, float>(const CopyRowsArgs<Bf16, float>&, Stream&);

}  // namespace cheetah::gpu
