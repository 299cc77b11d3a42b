// SPDX-License-Identifier: MIT
// Element by element; rows in runs of eight, which are read 16 bytes at a time where they lie so.
// bytes  every operand once    bound  memory
#include <algorithm>

#include "gpu/launch.cuh"
#include "gpu/ptx.cuh"
#include "kernels/activation/activation_cuda.h"
#include "kernels/cuda/pieces.cuh"

namespace cheetah::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kRun = 8;  // neighbouring numbers per thread

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

// Calls work(row, first, count) for this thread's runs of neighbouring columns: blocks along x share a row,
// those along y the rows.
template <class Work>
__device__ void for_runs(int64_t rows, int64_t cols, const Work& work) {
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x) * kRun;
  if (first >= cols) return;
  const auto count = static_cast<int>(cols - first < kRun ? cols - first : kRun);
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) work(row, first, count);
}

// A run of numbers, in pieces where `whole` says that all of them are there and aligned.
template <class T>
__device__ void load_run(const T* from, int count, bool whole, float (&to)[kRun]) {
  if (whole && count == kRun) {
#pragma unroll
    for (int i = 0; i < kRun; i += kPieceNumbers<T>)
      widen_piece<T>(*reinterpret_cast<const uint4*>(from + i), to + i);
  } else {
#pragma unroll
    for (int i = 0; i < kRun; ++i) to[i] = i < count ? widen(from[i]) : 0.f;
  }
}
template <class T>
__device__ void store_run(const float (&from)[kRun], int count, bool whole, T* to) {
  if (whole && count == kRun) {
#pragma unroll
    for (int i = 0; i < kRun; i += kPieceNumbers<T>)
      *reinterpret_cast<uint4*>(to + i) = narrow_piece<T>(from + i);
  } else {
#pragma unroll
    for (int i = 0; i < kRun; ++i)
      if (i < count) to[i] = narrow<T>(from[i]);
  }
}

template <class T, class Gate>
__device__ void gate_rows(const GatedArgs<T>& args, bool whole, const Gate& gate_of) {
  for_runs(args.rows, args.cols, [&](int64_t row, int64_t first, int count) {
    float gate[kRun], up[kRun];
    load_run(args.gate + row * args.gate_stride + first, count, whole, gate);
    load_run(args.up + row * args.up_stride + first, count, whole, up);
#pragma unroll
    for (int i = 0; i < kRun; ++i) gate[i] = gate_of(gate[i], up[i]);
    store_run(gate, count, whole, args.y + row * args.y_stride + first);
  });
}

template <class T>
__global__ __launch_bounds__(kThreads) void gate_elements(const GatedArgs<T> args, bool whole) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  gate_rows(args, whole, [&](float gate, float up) { return activation_of(args.kind, gate) * up; });
}

template <class T>
__global__ __launch_bounds__(kThreads) void clamp_and_gate(const ClampedSwigluArgs<T> args, bool whole) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  gate_rows(args.rows, whole, [&](float gate, float up) {
    gate = fminf(gate, args.limit);
    up = fminf(fmaxf(up, -args.limit), args.limit);
    return (up + 1.f) * gate * sigmoid(args.alpha * gate);
  });
}

template <class T>
__global__ __launch_bounds__(kThreads) void clip_elements(T* x, float limit, int64_t count) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int64_t i = element_index();
  if (i < count) x[i] = narrow<T>(fminf(fmaxf(widen(x[i]), -limit), limit));
}

template <class T>
__global__ __launch_bounds__(kThreads) void add_elements(const T* x, float scale, T* y, int64_t count) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  const int64_t i = element_index();
  if (i < count) y[i] = narrow<T>(widen(y[i]) + scale * widen(x[i]));
}

template <class X, class Y>
__global__ __launch_bounds__(kThreads) void copy_elements(const CopyRowsArgs<X, Y> args, bool whole) {
  ptx::launch_dependents();
  ptx::wait_for_dependencies();
  for_runs(args.rows, args.cols, [&](int64_t row, int64_t first, int count) {
    const int64_t from = args.source ? args.source[row] / args.divisor : row;
    float numbers[kRun];
    load_run(args.x + from * args.x_stride + first, count, whole, numbers);
    store_run(numbers, count, whole, args.y + row * args.y_stride + first);
  });
}

__global__ __launch_bounds__(kThreads) void scale_and_cap(
    float* logits, int64_t count, float scale, float cap) {
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

LaunchConfig per_run(const char* kernel, int64_t rows, int64_t cols) {
  constexpr int64_t kColsABlock = int64_t{kThreads} * kRun, kMaxGridY = 65535;
  return {.kernel = kernel,
      .grid = {(cols + kColsABlock - 1) / kColsABlock, std::min(rows, kMaxGridY)},
      .block = {kThreads},
      .overlaps_previous = true};
}

template <class T>
bool gated_in_pieces(const GatedArgs<T>& args) {
  return in_pieces(args.gate, args.gate_stride) && in_pieces(args.up, args.up_stride) &&
         in_pieces(args.y, args.y_stride);
}

}  // namespace

template <class T>
void activate(Activation kind, T* x, int64_t count, Stream& stream) {
  launch(per_element("activate", count), stream, activate_elements<T>, kind, x, count);
}

template <class T>
void gated_activation(const GatedArgs<T>& args, Stream& stream) {
  launch(per_run("gated_activation", args.rows, args.cols), stream, gate_elements<T>, args,
      gated_in_pieces(args));
}

template <class T>
void clamped_swiglu(const ClampedSwigluArgs<T>& args, Stream& stream) {
  launch(per_run("clamped_swiglu", args.rows.rows, args.rows.cols), stream, clamp_and_gate<T>, args,
      gated_in_pieces(args.rows));
}

template <class T>
void clip(T* x, float limit, int64_t count, Stream& stream) {
  launch(per_element("clip", count), stream, clip_elements<T>, x, limit, count);
}

template <class T>
void add_scaled(const T* x, float scale, T* y, int64_t count, Stream& stream) {
  launch(per_element("add_scaled", count), stream, add_elements<T>, x, scale, y, count);
}

template <class X, class Y>
void copy_rows(const CopyRowsArgs<X, Y>& args, Stream& stream) {
  launch(per_run("copy_rows", args.rows, args.cols), stream, copy_elements<X, Y>, args,
      in_pieces(args.x, args.x_stride) && in_pieces(args.y, args.y_stride));
}

void finish_logits(float* logits, int64_t count, float scale, float cap, Stream& stream) {
  if (scale == 1.f && cap == 0.f) return;
  launch(per_element("finish_logits", count), stream, scale_and_cap, logits, count, scale, cap);
}

#define CHEETAH_INSTANTIATE(T)                                           \
  template void activate<T>(Activation, T*, int64_t, Stream&);           \
  template void gated_activation<T>(const GatedArgs<T>&, Stream&);       \
  template void clamped_swiglu<T>(const ClampedSwigluArgs<T>&, Stream&); \
  template void clip<T>(T*, float, int64_t, Stream&);                    \
  template void add_scaled<T>(const T*, float, T*, int64_t, Stream&)
CHEETAH_INSTANTIATE(float);
CHEETAH_INSTANTIATE(Bf16);
#undef CHEETAH_INSTANTIATE
template void copy_rows<float, float>(const CopyRowsArgs<float, float>&, Stream&);
template void copy_rows<Bf16, Bf16>(const CopyRowsArgs<Bf16, Bf16>&, Stream&);
template void copy_rows<Bf16, float>(const CopyRowsArgs<Bf16, float>&, Stream&);

}  // namespace cheetah::gpu
