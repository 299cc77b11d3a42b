// SPDX-License-Identifier: MIT
// Where the roofline bends: the same numbers stored in 4, 2 and 1 bytes, with more and more arithmetic on
// each; and what the special-function unit saves.
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "lab/experiments/device_trial.cuh"

namespace cheetah::lab {
namespace {

constexpr int kThreads = 256;
constexpr int kGroup =
    16;  // numbers per thread: four quads, each beside its neighbours' so that loads are coalesced
constexpr int kQuads = kGroup / 4;

// Multiples of 1/8 in [-1, 1): exact in every format.
template <class T>
struct Eighths {
  __device__ T operator()(uint64_t seed, int64_t i) const {
    return static_cast<T>(
        static_cast<float>(static_cast<int>(mixed(seed, static_cast<uint64_t>(i)) >> 60) - 8) * 0.125f);
  }
};

template <class T>
struct alignas(4 * sizeof(T)) Quad {
  T values[4];
};

// y[g] = sum over group g of x after `work` steps v -> 0.99 v + 0.01
template <class T>
__global__ __launch_bounds__(kThreads) void sum_groups(const Quad<T>* x, float* y, int groups, int work) {
  const int g = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (g >= groups) return;
  Quad<T> loaded[kQuads];
#pragma unroll
  for (int q = 0; q < kQuads; ++q) loaded[q] = x[static_cast<int64_t>(q) * groups + g];
  float v[kGroup];
#pragma unroll
  for (int i = 0; i < kGroup; ++i) v[i] = static_cast<float>(loaded[i / 4].values[i % 4]);
  for (int k = 0; k < work; ++k)
#pragma unroll
    for (int i = 0; i < kGroup; ++i) v[i] = v[i] * 0.99f + 0.01f;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kGroup; ++i) sum += v[i];
  y[g] = sum;
}

struct GroupSum {
  const float* x;
  int64_t groups;
  int work;
  __device__ double operator()(int64_t g) const {
    double sum = 0;
    for (int i = 0; i < kGroup; ++i) {
      double v = x[4 * (i / 4 * groups + g) + i % 4];
      for (int k = 0; k < work; ++k) v = v * static_cast<double>(0.99f) + static_cast<double>(0.01f);
      sum += v;
    }
    return sum;
  }
};

template <class T>
void add_format(DeviceTrial& trial, const char* name, Slot<T> x, Slot<float> y) {
  const auto work = static_cast<int>(trial.dim(1));
  const int64_t groups = y.count;
  const double numbers = 1.0 * kGroup * static_cast<double>(groups);
  const double bytes = numbers * static_cast<double>(sizeof(T)) + 4.0 * static_cast<double>(groups);
  constexpr int kRidge = 32;  // multiply-adds a number past which arithmetic should be the limit
  trial.set_cost(name, {.flops = numbers * (2.0 * work + 1),
                           .bytes = bytes,
                           .roof = work < kRidge ? Roof::kDramRead : Roof::kFp32});
  trial.variant(name, [=](const At& at) {
    gpu::launch({.kernel = "sum_groups",
                    .grid = {blocks_of(groups, kThreads)},
                    .block = {kThreads},
                    .numbers = {groups, work}},
        at.stream(), sum_groups<T>, reinterpret_cast<const Quad<T>*>(at[x]), at[y], static_cast<int>(groups),
        work);
  });
}

std::unique_ptr<Trial> make_roofline(const Setup& setup) {
  const int64_t n = setup.dim(0);  // a multiple of the group
  auto trial = std::make_unique<DeviceTrial>(setup);
  constexpr bool kSameSeed = true;
  const auto x = trial->input_from<float>(n, Eighths<float>{}, kSameSeed);
  const auto half = trial->input_from<__half>(n, Eighths<__half>{}, kSameSeed);
  const auto byte = trial->input_from<__nv_fp8_e4m3>(n, Eighths<__nv_fp8_e4m3>{}, kSameSeed);
  const auto y = trial->output<float>(n / kGroup);
  trial->expect<GroupSum>(y, [=, work = static_cast<int>(setup.dim(1))](const At& at) {
    return GroupSum{at[x], n / kGroup, work};
  });
  trial->set_touched(n);
  add_format(*trial, "f32", x, y);
  add_format(*trial, "f16", half, y);
  add_format(*trial, "e4m3", byte, y);
  return trial;
}

struct Precise {
  static __device__ float step(float v) { return sinf(v) + expf(-v * v) / (1.f + sqrtf(v * v + 0.5f)); }
};
struct Fast {
  static __device__ float step(float v) {
    return __sinf(v) + __fdividef(__expf(-v * v), 1.f + __fsqrt_rn(v * v + 0.5f));
  }
};
struct Approximate {
  static __device__ float step(float v) {
    const float square = v * v + 0.5f;
    return __sinf(v) + __fdividef(__expf(-v * v), 1.f + square * rsqrtf(square));
  }
};
constexpr int kSteps = 16;

template <class Math>
__global__ __launch_bounds__(kThreads) void iterate(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (i >= n) return;
  float v = x[i];
#pragma unroll 4
  for (int k = 0; k < kSteps; ++k) v = Math::step(v);
  y[i] = v;
}

struct Iterated {
  const float* x;
  __device__ double operator()(int64_t i) const {
    double v = x[i];
    for (int k = 0; k < kSteps; ++k) v = sin(v) + exp(-v * v) / (1.0 + sqrt(v * v + 0.5));
    return v;
  }
};

std::unique_ptr<Trial> make_special(const Setup& setup) {
  const int64_t n = setup.dim(0);
  auto trial = std::make_unique<DeviceTrial>(setup);
  const auto x = trial->input<float>(n);
  const auto y = trial->output<float>(n);
  trial->expect<Iterated>(y, [=](const At& at) { return Iterated{at[x]}; });
  trial->set_cost(
      {.bytes = 8.0 * n, .roof = Roof::kNone, .items = 4.0 * kSteps * n, .item = "special function"});
  const auto add = [&](const char* name, void (*kernel)(const float*, float*, int)) {
    trial->variant(name, [=](const At& at) {
      gpu::launch({.kernel = name, .grid = {blocks_of(n, kThreads)}, .block = {kThreads}, .numbers = {n}},
          at.stream(), kernel, at[x], at[y], static_cast<int>(n));
    });
  };
  add("precise", iterate<Precise>);
  add("fast", iterate<Fast>);
  add("approximate", iterate<Approximate>);
  return trial;
}

const Registered kRoofline({
    .id = "ch06/roofline",
    .title = "Narrow formats against arithmetic intensity",
    .question = "Up to how much arithmetic a number does storing it in fewer bytes still pay?",
    .mechanism =
        "Left of the ridge time is bytes: half the bytes, half the time, minus conversions. Right of it time "
        "is "
        "multiply-adds, the same for every format; the ridge lies near 14 operations per byte for F32 storage.",
    .claim = {.text = "Halving the bytes of a number doubles arithmetic intensity and with it the speed of a "
                      "memory-bound kernel.",
        .variant = "f16",
        .speedup = 2},
    .variants = {{"f32", "4 bytes per number"}, {"f16", "2 bytes"}, {"e4m3", "1 byte"}},
    .sizes = {{"work 1", {1 << 27, 1}}, {"work 8", {1 << 27, 8}}, {"work 32", {1 << 26, 32}},
        {"work 128", {1 << 25, 128}}},
    .tolerance = {.absolute = 1e-4},
    .make = make_roofline,
});

const Registered kSpecial({
    .id = "ch06/special-functions",
    .title = "Special functions, precise and fast",
    .question = "What do the special-function unit's approximations save over the precise library functions?",
    .mechanism = "sinf, expf, division and sqrtf refine or reduce in many multiply-adds; the intrinsics are "
                 "one instruction of "
                 "the special-function unit, which gives 16 results a cycle and SM beside the other pipes.",
    .claim = {.text = "Transcendentals run on a pipe of their own and need not hold up the main pipes; no "
                      "figure is given."},
    .variants = {{"precise", "library functions"}, {"fast", "intrinsics, square root still rounded"},
        {"approximate", "intrinsics alone"}},
    .sizes = sizes_of({1 << 20, 1 << 24}),
    .tolerance = {.absolute = 1e-4},
    .make = make_special,
});

}  // namespace
}  // namespace cheetah::lab
